"""`python -m eas`: env, doctor, --version, and what it says about anything else."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest

import eas.__main__ as cli
from eas._version import __version__
from eas.base import config


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch, tmp_path):
    for name in [*(s.name for s in config.SETTINGS), *config.unknown_variables()]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))


def test_env_lists_every_variable_with_its_value(monkeypatch, capsys):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    assert cli.main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    starts = {line.split()[0]: line.split()[1:3] for line in lines if line.startswith("EAS_")}
    assert list(starts) == [s.name for s in config.SETTINGS]
    assert starts["EAS_BACKEND"] == ["interp", "set"]
    assert starts["EAS_CACHE"] == ["1", "default"]


def test_env_says_which_variables_are_not_used_yet(capsys):
    cli.main(["env"])
    unused = [s for s in config.SETTINGS if not s.is_used]
    assert capsys.readouterr().out.count("not used yet in this version") == len(unused)


def test_env_reports_invalid_and_unknown_variables(monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "loud")
    monkeypatch.setenv("EAS_BACKND", "cpu")
    assert cli.main(["env"]) == 1
    out = capsys.readouterr().out
    assert "EAS_DEBUG='loud' is not an integer from 0 to 5" in out
    assert "EAS_BACKND is not a variable of eas; did you mean EAS_BACKEND?" in out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"eas {__version__}"


def test_unknown_subcommand_exits_2(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["docter"])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "invalid choice: 'docter'" in err
    assert "doctor" in err


def _doctor():
    return importlib.import_module("eas.command_line.doctor")


def test_doctor_reports_each_section(capsys):
    _doctor()
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for title in ("eas", "backends", "C++ compilers", "Metal", "torch", "DLPack", "disk cache"):
        assert f"\n{title}\n" in f"\n{out}"
    assert f"version          {__version__}" in out
    assert "interp           available" in out


def test_doctor_says_why_a_backend_is_unavailable(monkeypatch):
    doctor = _doctor()
    missing = SimpleNamespace(is_available=lambda: False, why_unavailable=lambda: "needs macOS")
    monkeypatch.setattr(doctor, "get_runtime", lambda name: missing)
    assert "  mps              not available: needs macOS" in doctor.report()


@pytest.mark.parametrize("failure", [None, "broken"])
def test_doctor_tolerates_missing_or_broken_torch(monkeypatch, failure):
    doctor = _doctor()
    find_spec, import_module = importlib.util.find_spec, importlib.import_module

    def broken(name, *rest):
        if name == "torch":
            raise OSError("libtorch.so: cannot open shared object file")
        return import_module(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: failure if name == "torch" else find_spec(name, *rest))
    monkeypatch.setattr(importlib, "import_module", broken)
    expected = "import fails: libtorch.so" if failure else "not installed; pip install 'easy-as[torch]'"
    assert expected in doctor.report()


TORCH = {"torch": "2.13", "mps available": "yes", "compile_shader": "yes"}


@pytest.mark.parametrize(
    ("found", "asked", "missing", "layer"),
    [
        ({"torch": "not installed; pip install torch"}, "auto", None, "none: torch is not installed"),
        (TORCH | {"mps available": "no"}, "auto", None, "none: this torch has no MPS"),
        (TORCH, "auto", None, "B, kernels run on torch's own stream: EAS_TORCH_LAYER=auto, and torch has compile_shader"),
        (TORCH, "auto", "torch 2.6 has no torch.mps.compile_shader", "A, memory is shared through DLPack, with synchronisations: torch 2.6 has no"),
        (TORCH, "a", None, "A, memory is shared through DLPack, with synchronisations: EAS_TORCH_LAYER=a"),
        (TORCH, "b", "torch 2.6 has no torch.mps.compile_shader", "none: EAS_TORCH_LAYER=b, but torch 2.6 has no"),
    ],
)  # fmt: skip
def test_doctor_says_which_torch_layer_and_why(monkeypatch, found, asked, missing, layer):
    doctor = _doctor()
    monkeypatch.setenv("EAS_TORCH_LAYER", asked)
    monkeypatch.setattr(doctor.probe, "rows", lambda: list(found.items()))
    monkeypatch.setattr("eas._torch_mps.why_unavailable", lambda: missing)
    assert doctor.torch_layer().startswith(layer)


@pytest.mark.parametrize(("system", "said"), [("13.6", "eas needs 3.1"), ("14.2", "Metal 3.1"), ("15.0", "Metal 3.2"), ("26.1", "Metal 4.0")])
def test_doctor_names_the_language_of_a_macos(monkeypatch, system, said):
    doctor = _doctor()
    monkeypatch.setattr(doctor.platform, "mac_ver", lambda: (system, ("", "", ""), "arm64"))
    assert said in dict(doctor._metal())["macOS"]


def test_doctor_describes_the_device_and_its_facts(monkeypatch, tmp_path):
    doctor = _doctor()
    info = {"name": "Apple Paravirtual device", "family": 8, "is_headless": True, "has_unified_memory": True, "working_set_nbytes": 4 << 30}
    gpu = SimpleNamespace(why_unavailable=lambda: None, extension=lambda: SimpleNamespace(device_info=lambda: info))
    monkeypatch.setattr(doctor, "get_runtime", lambda name: gpu)
    rows = dict(doctor._metal())
    assert rows["device"] == "Apple Paravirtual device, headless, paravirtual"
    assert (rows["family"], rows["memory"]) == ("Apple 8", "4096 MiB, shared with the CPU")
    assert rows["measured facts"] == "none; python -m eas verify"
    doctor.gpu_facts.write(info["name"], {"simd_width": 32})
    assert dict(doctor._metal())["measured facts"] == f"1 in {tmp_path / 'gpu' / 'Apple-Paravirtual-device.json'}"


def test_doctor_says_how_to_build_the_extension(monkeypatch):
    doctor = _doctor()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    for system, command in (("Darwin", "; python tools/build_metal_ext.py"), ("Linux", "; EAS_METAL=software python tools/build_metal_ext.py")):
        monkeypatch.setattr(doctor.platform, "system", lambda system=system: system)
        assert f"not built{command}" in dict(doctor._metal())["extension"]


def test_doctor_measures_the_cache_without_making_it(monkeypatch, tmp_path):
    doctor = _doctor()
    folder = tmp_path / "new" / "cache"
    monkeypatch.setenv("EAS_CACHE_DIR", str(folder))
    report = doctor.report()
    assert "0 files, 0.0 MiB" in report
    assert "writable         yes" in report
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "entry").write_bytes(bytes(2**20))
    assert "1 files, 1.0 MiB" in doctor.report()


def test_doctor_marks_an_old_clang(monkeypatch):
    doctor = _doctor()
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "clang++" if name == "clang++" else None)
    monkeypatch.setattr(doctor, "_major_version", lambda path: 14)
    assert "14 (clang++, too old: needs 19 or newer)" in doctor.report()


def test_doctor_refuses_invalid_setting_in_one_line(monkeypatch, capsys):
    _doctor()
    monkeypatch.setenv("EAS_CACHE", "maybe")
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().err.startswith("eas: EAS_CACHE='maybe' is not 0 or 1")


def test_module_is_executable():
    done = subprocess.run([sys.executable, "-m", "eas", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"eas {__version__}\n"
