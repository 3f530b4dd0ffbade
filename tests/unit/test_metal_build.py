"""How the Metal runtime is built: the command of a Mac, the tag of its wheel, the workflow, and what is said where it cannot be built."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tools import build_metal_ext

ROOT = Path(__file__).parents[2]


def run_tool(**env: str) -> subprocess.CompletedProcess[str]:
    settings = {k: v for k, v in os.environ.items() if k != "EAS_METAL"} | env
    return subprocess.run([sys.executable, "tools/build_metal_ext.py"], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac builds it")
def test_elsewhere_the_tool_says_why_and_what_to_do():
    done = run_tool()
    assert done.returncode == 1
    assert done.stderr == f"build_metal_ext: Metal needs macOS, this is {sys.platform}; EAS_METAL=software builds it against the software Metal\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machine": "x86_64"}, "this Mac has a processor of kind x86_64"),
        ({"tools": 2}, "xcode-select --install"),
        ({"clang": None}, "xcode-select --install"),
        ({"free_threaded": 1}, "free-threaded builds are not supported"),
        ({}, None),
    ],
    ids=["intel", "no tools", "no compiler", "free-threaded", "good"],
)
def test_a_mac_that_cannot_build_it_is_told_why(monkeypatch, changes, said):
    monkeypatch.setattr(build_metal_ext.sys, "platform", "darwin")
    monkeypatch.setattr(build_metal_ext.platform, "machine", lambda: changes.get("machine", "arm64"))
    monkeypatch.setattr(build_metal_ext.shutil, "which", lambda name: changes.get("clang", f"/usr/bin/{name}"))
    monkeypatch.setattr(build_metal_ext.sysconfig, "get_config_var", lambda name: changes.get("free_threaded", 0))
    done = subprocess.CompletedProcess([], changes.get("tools", 0))
    monkeypatch.setattr(build_metal_ext.subprocess, "run", lambda *args, **options: done)
    why = build_metal_ext.why_not()
    assert (why is None) == (said is None)
    assert said is None or said in str(why)


def test_the_command_of_a_mac():
    command = build_metal_ext.mac_command(Path("out/_metal.abi3.so"))
    text = " ".join(command)
    for part in ("-framework Metal", "-framework Foundation", "-framework CoreGraphics", "-fobjc-arc", "-mmacosx-version-min=14.0", "-arch arm64", "-o out/_metal.abi3.so"):
        assert part in text
    assert command[0] == "clang++"
    assert "xcrun" not in text
    given = {Path(c).name for c in command if c.endswith(".mm")}
    assert given == {p.name for p in (ROOT / "eas" / "metal_native").glob("*.mm")}
    assert not any("metal_fake" in c for c in command)


def test_a_device_is_found_without_a_window_server():
    """Command-line tools may get no default device; the list of all devices is asked then."""
    source = (ROOT / "eas" / "metal_native" / "device.mm").read_text()
    assert source.index("MTLCreateSystemDefaultDevice()") < source.index("MTLCopyAllDevices()")


# --- pip ------------------------------------------------------------------------------------------


@pytest.fixture
def setup_file():
    pytest.importorskip("setuptools.command.bdist_wheel")
    spec = importlib.util.spec_from_file_location("eas_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_a_mac(monkeypatch, setup_file, machine="arm64"):
    monkeypatch.setattr(setup_file.sys, "platform", "darwin")
    monkeypatch.setattr(setup_file.platform, "machine", lambda: machine)
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    found = setup_file.options()
    monkeypatch.undo()
    return found


def test_elsewhere_the_package_is_plain_python(monkeypatch, setup_file):
    if sys.platform != "darwin":
        assert "ext_modules" not in setup_file.options()
    assert "ext_modules" not in on_a_mac(monkeypatch, setup_file, machine="x86_64")


def test_the_examples_are_shipped_as_a_part_of_eas(setup_file):
    made = setup_file.options()
    assert made["package_dir"] == {"eas.examples": "examples"}
    assert {"eas", "eas.lib", "eas.examples", "eas.command_line"} <= set(made["packages"])
    assert not any(name.startswith(("tests", "tools", "examples")) for name in made["packages"])


def test_the_wheel_of_a_mac_is_for_every_python_from_3_11_on(monkeypatch, setup_file):
    from setuptools import Distribution

    dist = Distribution({"name": "easy-as", "version": "1", **on_a_mac(monkeypatch, setup_file)})
    wheel = dist.get_command_obj("bdist_wheel")
    wheel.ensure_finalized()
    wheel.plat_name, wheel.plat_name_supplied = "macosx_14_0_arm64", True
    assert wheel.get_tag() == ("cp311", "abi3", "macosx_14_0_arm64")
    build = dist.get_command_obj("build_ext")
    build.ensure_finalized()
    assert Path(build.get_ext_filename("eas._metal")).name == "_metal.abi3.so"


def test_pip_builds_with_the_same_command_and_fails_aloud(monkeypatch, setup_file, tmp_path):
    from setuptools import Distribution

    dist = Distribution({"name": "easy-as", "version": "1", **on_a_mac(monkeypatch, setup_file)})
    command = dist.get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(tmp_path), str(tmp_path / "temp")
    command.ensure_finalized()
    built = []
    monkeypatch.setattr(setup_file.build_metal_ext, "why_not", lambda: None)
    monkeypatch.setattr(setup_file.build_metal_ext, "build", lambda path: built.append(path) or 0)
    command.run()
    assert built == [tmp_path / "eas" / "_metal.abi3.so"]
    monkeypatch.setattr(setup_file.build_metal_ext, "build", lambda path: 1)
    with pytest.raises(SystemExit, match="does not compile"):
        command.build_extension(command.extensions[0])
    monkeypatch.setattr(setup_file.build_metal_ext, "why_not", lambda: "there is no clang++")
    with pytest.raises(SystemExit, match=r"easy-as: there is no clang\+\+"):
        command.build_extension(command.extensions[0])


def test_sources_that_pip_needs_are_shipped():
    assert "include tools/build_metal_ext.py" in (ROOT / "MANIFEST.in").read_text().splitlines()
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert data["setuptools"]["package-data"]["eas.metal_native"] == ["*.mm", "*.h"]
    assert data["setuptools"]["package-data"]["eas.verify"] == ["*.xz"]
    wheels = data["cibuildwheel"]
    assert wheels["build"] == "cp3{11,12,13,14}-macosx_arm64"
    assert wheels["environment"] == {"MACOSX_DEPLOYMENT_TARGET": build_metal_ext.MACOS}


# --- the workflow ---------------------------------------------------------------------------------


def test_the_workflow_runs_commands_that_exist():
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "macos.yml").read_text())
    assert set(workflow[True]) >= {"push", "pull_request"}  # YAML takes the word `on` for a boolean
    (job,) = workflow["jobs"].values()
    assert job["runs-on"].startswith("macos-")
    commands = [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines()]
    assert any(re.fullmatch(r"python -m pip wheel .* -w dist \.", c) for c in commands)
    assert "python -m eas verify --output report" in commands
    assert any(c.startswith("python -m pytest") for c in commands)
    for module in {m for c in commands for m in re.findall(r"python -m (\w+)", c)}:
        assert importlib.util.find_spec(module), module
    for path in re.findall(r"-c (\S+)", " ".join(commands)):
        assert (ROOT / path).exists()
    (upload,) = [s for s in job["steps"] if s.get("uses", "").startswith("actions/upload-artifact@")]
    assert upload["if"] == "always()"
    assert "report" in upload["with"]["path"].split()


def test_the_options_of_verify_in_the_workflow_exist():
    text = (ROOT / ".github" / "workflows" / "macos.yml").read_text()
    done = subprocess.run([sys.executable, "-m", "eas", "verify", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for option in re.findall(r"eas verify.*?(--\w+)", text):
        assert option in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs a compiler: pip install ziglang")
@pytest.mark.parametrize(("sdk", "names"), [("140000", "*.mm"), ("150000", "library.mm")])
def test_the_sources_compile_with_the_names_of_older_systems(sdk, names, tmp_path):
    """An SDK does not know what came after it; the OS is asked at run time, never the SDK."""
    zig = str(Path(str(importlib.import_module("ziglang").__file__)).parent / "zig")
    flags = ["-x", "objective-c++", *build_metal_ext.COMMON, *build_metal_ext.ON_FAKE, "-I", sysconfig.get_paths()["include"], "-O0", "-o", str(tmp_path / "object")]
    for source in sorted((ROOT / "eas" / "metal_native").glob(names)):
        done = subprocess.run([zig, "c++", "-c", *flags, f"-D__MAC_OS_X_VERSION_MAX_ALLOWED={sdk}", str(source)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr, done.stderr
