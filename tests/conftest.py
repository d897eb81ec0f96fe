import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster  # noqa: E402


@pytest.fixture
def cluster(tmp_path):
    """An empty cluster; whatever was started in it ends with the test."""
    made = Cluster(tmp_path)
    yield made
    made.end()


@pytest.fixture
def two_nodes(cluster):
    cluster.start_master()
    cluster.start_node()
    cluster.start_node()
    cluster.joined()
    return cluster
