#!/usr/bin/env python3
"""Arrows point down: compares every #include "room/…" with the mp_room declarations of src/CMakeLists.txt.

Prints file:line, the wrong include and what is allowed there; exits 1 when there is one. Also: declarations must have no
circle, and ARCHITECTURE.md must name each room. `--self-test` plants wrong includes in a made-up tree and looks for them.
"""
import pathlib
import re
import sys
import tempfile

SUFFIXES = {".h", ".cc", ".inc", ".cpp", ".hpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# Folders outside of src. None: they put things together and may include any room.
OUTSIDE = {"apps": None, "sim": None, "bench": None, "fuzz": None, "python": {"pool", "config", "base"}, "include": set()}


def declared_rooms(cmake_text):
    """{room: [rooms it may include]} from mp_room(name DEPS a b LIBRARIES c)."""
    rooms = {}
    for body in re.findall(r"^\s*mp_room\(([^)]*)\)", cmake_text, re.MULTILINE):
        words = re.sub(r"#.*", "", body).split()
        deps, taking = [], False
        for word in words[1:]:
            if word in ("DEPS", "LIBRARIES"):
                taking = word == "DEPS"
            elif taking:
                deps.append(word)
        rooms[words[0]] = deps
    return rooms


def circles(rooms):
    """A room may only depend on rooms declared above it, which is the same as: no circle, and readable top-down."""
    seen, wrong = set(), []
    for room, deps in rooms.items():
        wrong += [f"src/CMakeLists.txt: {room} depends on {dep}, which is not declared above it" for dep in deps if dep not in seen]
        seen.add(room)
    return wrong


def users_of_public_headers(rooms):
    """The rooms that may include millpond/…: pool implements it, and what stands above pool."""
    users = {"pool"}
    for room, deps in rooms.items():
        if users & set(deps):
            users.add(room)
    return users


def check_file(path, relative, rooms, public_users):
    top = relative.parts[0]
    own = relative.parts[1] if top == "src" else top
    if top == "src" and own not in rooms:
        return [f"{relative}:1: room {own} has no mp_room line in src/CMakeLists.txt"]
    allowed = set(rooms[own]) if top == "src" else OUTSIDE[top]
    wrong = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found.group(1)
        where = f"{relative}:{number}: #include \"{name}\""
        target = name.split("/")[0] if "/" in name else None
        if target is None:
            if top == "src":
                wrong.append(f"{where}: name the room, like \"{own}/{name}\"")
        elif target == "millpond":
            if top == "src" and own not in public_users:
                wrong.append(f"{where}: public headers are for {', '.join(sorted(public_users))} and what stands above")
        elif target == own:
            pass
        elif target in OUTSIDE:
            if top == "src" or (top, target) != ("apps", "sim"):
                wrong.append(f"{where}: nothing includes {target}/")
        elif target not in rooms:
            wrong.append(f"{where}: there is no room {target}; outside libraries go in <…>")
        elif allowed is not None and target not in allowed:
            names = ", ".join(sorted(allowed)) or "no room at all"
            wrong.append(f"{where}: {own} may include {names}")
    return wrong


def check(root):
    """Every wrong arrow below `root`, and how many files were read."""
    rooms = declared_rooms((root / "src/CMakeLists.txt").read_text())
    wrong = circles(rooms)
    essay = (root / "ARCHITECTURE.md").read_text() if (root / "ARCHITECTURE.md").exists() else ""
    wrong += [f"ARCHITECTURE.md: does not name the room `{room}`" for room in rooms if f"`{room}`" not in essay]
    public_users = users_of_public_headers(rooms)
    files = 0
    for top in ["src", *OUTSIDE]:
        for path in sorted((root / top).rglob("*")):
            relative = path.relative_to(root)
            if path.suffix in SUFFIXES and (top != "src" or len(relative.parts) > 2):
                files += 1
                wrong += check_file(path, relative, rooms, public_users)
    return wrong, files


def self_test():
    tree = {
        "src/CMakeLists.txt": "mp_room(base)\nmp_room(wire DEPS base)\nmp_room(tier DEPS wire\n  base LIBRARIES sodium)\nmp_room(pool DEPS tier)\n",
        "ARCHITECTURE.md": "`base` `wire` `tier` `pool`",
        "src/tier/good.h": '#include "tier/other.h"\n#include "wire/frame.h"\n#include <pool/ours.h>\n// #include "pool/pool.h" in words\n',
        "src/pool/pool.cc": '#include "millpond/pool.h"\n#include "tier/good.h"\n',
        "apps/main.cc": '#include "pool/pool.h"\n#include "sim/world.h"\n',
    }
    planted = {
        "upwards": ("src/wire/a.cc", '\n#include "tier/good.h"\n', "src/wire/a.cc:2: ", "wire may include base"),
        "not declared": ("src/pool/b.cc", '#include "wire/frame.h"\n', "src/pool/b.cc:1: ", "pool may include tier"),
        "no room": ("src/tier/c.h", '#include "frame.h"\n', "src/tier/c.h:1: ", "name the room"),
        "unknown room": ("src/tier/d.h", '#include "cellar/wine.h"\n', "src/tier/d.h:1: ", "no room cellar"),
        "public header from below": ("src/tier/e.h", ' # include "millpond/pool.h"\n', "src/tier/e.h:1: ", "public headers"),
        "public header looks inside": ("include/millpond/f.h", '#include "base/id.h"\n', "include/millpond/f.h:1: ", "no room at all"),
        "room from apps": ("src/pool/g.cc", '#include "apps/main.h"\n', "src/pool/g.cc:1: ", "nothing includes apps"),
        "undeclared room": ("src/attic/h.h", "\n", "src/attic/h.h:1: ", "no mp_room line"),
        "circle": ("src/CMakeLists.txt", tree["src/CMakeLists.txt"].replace("mp_room(base)", "mp_room(base DEPS wire)"), "src/CMakeLists.txt: ", "base depends on wire"),
        "essay": ("ARCHITECTURE.md", "`base` `wire` `tier`", "ARCHITECTURE.md: ", "`pool`"),
    }
    failed = 0
    for name, plant in {"nothing": None, **planted}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**tree, **({plant[0]: plant[1]} if plant else {})}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            wrong, _ = check(root)
        fine = not wrong if plant is None else len(wrong) == 1 and wrong[0].startswith(plant[2]) and plant[3] in wrong[0]
        if not fine:
            failed += 1
            print(f"self-test: planted {name}, found {wrong}")
    return failed


def main():
    if "--self-test" in sys.argv[1:]:
        return 1 if self_test() else 0
    root = pathlib.Path(__file__).resolve().parent.parent
    wrong, files = check(root)
    print("\n".join(wrong) if wrong else f"{files} files, every arrow points down")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
