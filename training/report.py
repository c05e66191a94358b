"""The held-out report at the end of a training."""
import json
from pathlib import Path

import torch
import torch.nn.functional as F

AFRICAN = "swh hau yor ibo zul xho amh som kin lug lin sna afr sot tsn nya gaz tir wol bem ewe twi plt run tso nso ssw luo kab fon bam".split()
LARGER = "fra por cmn_Hans spa ind hin deu ara jpn rus urd vie ben tur kor tha".split()


def report_flores(folder, out, embed, log):
    """Bitext retrieval over FLORES-200 devtest, both directions; `embed` turns texts into unit vectors."""
    files = sorted((Path(folder) / "flores200_devtest").glob("*.txt"))
    vectors = {p.stem: embed(p.read_text(encoding="utf8").rstrip("\n").split("\n")) for p in files}
    report = {}
    for d in (384, 256, 128, 64):
        cut = {l: F.normalize(v[:, :d], dim=-1) for l, v in vectors.items()}
        english = cut.pop("eng")
        k = torch.arange(len(english), device=english.device)
        found = lambda s: (s.argmax(1) == k).float().mean()
        report[d] = {l: float((found(v @ english.T) + found(english @ v.T)) / 2) for l, v in cut.items()}
        mean = lambda names: round(sum(report[d][l] for l in names) / len(names), 4)
        log("FLORES", d, "African", mean(AFRICAN), "larger", mean(LARGER))
    (Path(out) / "flores.json").write_text(json.dumps(report, indent=1))
    log({l: round(v, 3) for l, v in report[384].items()})
