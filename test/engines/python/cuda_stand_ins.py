"""Writes libraries with the names and symbols of CUDA's, so that a torch built for CUDA loads where there is no GPU."""

import collections
import pathlib
import re
import subprocess

# CUDA's runtime is small, and torch calls it while it loads.
REAL = re.compile(r"libcuda\.so|libcudart")


def output_of(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


def wanted_symbols(site):
    """Library -> version -> names of the symbols that torch takes from it."""
    wanted = collections.defaultdict(lambda: collections.defaultdict(set))
    for library in [*site.glob("torch/lib/*.so"), *site.glob("torchvision/*.so")]:
        needed = re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]", output_of("readelf", "-dW", library))
        for name in needed:
            wanted[name][""]
        owners, current = {}, None
        for line in output_of("readelf", "-VW", library).splitlines():
            if found := re.search(r"File: (\S+)", line):
                current = found.group(1)
            elif found := re.search(r"Name: (\S+)", line):
                owners[found.group(1)] = current
        for name, version in re.findall(r" UND (\w+)(?:@(\S+))?", output_of("readelf", "--dyn-syms", "-W", library)):
            if owners.get(version) in wanted:
                wanted[owners[version]][version].add(name)
            elif not version and re.match(r"cu|nv|nccl", name):
                for each in needed:
                    wanted[each][""].add(name)
    return wanted


def write_stand_ins(site):
    folder = next(pathlib.Path(site).glob("nvidia/cu*/lib"))
    for library, versions in wanted_symbols(pathlib.Path(site)).items():
        if REAL.match(library) or (folder / library).exists():
            continue
        source, script = folder / "stand-in.c", folder / "stand-in.map"
        names = sorted(set().union(*versions.values()))
        source.write_text("".join(f"int {name}(void) {{ return 999; }}\n" for name in names))
        nodes = [f"{version} {{ global: {'; '.join(sorted(own))}; }};\n" for version, own in versions.items() if version and own]
        script.write_text("".join(nodes))
        versioned = [f"-Wl,--version-script={script}"] if nodes else []
        target = ["-w", f"-Wl,-soname,{library}", *versioned, str(source), "-o", str(folder / library)]
        subprocess.run(["cc", "-shared", "-fPIC", *target], check=True)
        source.unlink()
        script.unlink()
