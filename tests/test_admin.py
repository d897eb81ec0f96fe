"""Goal: what the admin port says is what the tools of others take. Method: a real promtool, a JSON parser."""
import json
import shutil
import subprocess

import pytest


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool comes with Debian's package prometheus; ./run test installs it")
def test_metrics_pass_promtool(two_nodes):
    two_nodes.put("k", b"v" * 100_000)
    two_nodes.get("k")
    for daemon in [two_nodes.master, two_nodes.nodes[0]]:
        status, text = daemon.page("/metrics")
        assert status == 200
        check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        assert check.returncode == 0, check.stderr + check.stdout
        assert text.count("# TYPE millpond_") > 3


def test_state_config_and_health(two_nodes):
    two_nodes.put("k", b"v")
    for daemon in two_nodes.daemons:
        assert daemon.page("/healthz") == (200, "ok\n")
        assert isinstance(daemon.state(), dict)
        assert daemon.page("/nothing")[0] == 404
    config = json.loads(two_nodes.nodes[0].page("/config")[1])
    assert config["node"]["memory"] == "64 MiB"
    assert set(config) == {"node", "rpc"}


def test_a_secret_is_not_shown(cluster):
    master = cluster.start_master("--cluster-key", "open sesame")
    status, text = master.page("/config")
    assert json.loads(text)["rpc"]["cluster_key"] == "(set)"
    for page in ["/state", "/metrics", "/config"]:
        assert "sesame" not in master.page(page)[1]
    assert "sesame" not in master.said()
