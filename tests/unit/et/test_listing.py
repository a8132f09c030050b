from __future__ import annotations

from et.listing import show_list
from et_kube.resources import Json
from tests.unit.et.rigs import StoredApi, join_stored, make_screen, read


def store_job(name: str, trouble: str) -> Json:
    conditions = [{"type": trouble, "status": "True"}] if trouble else []
    meta = {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "TrainingJob", "metadata": meta, "status": {"conditions": conditions}}


async def test_a_trouble_of_a_long_name_makes_no_other_line_long():
    jobs = [store_job("a", ""), store_job("b", "WritesRefused"), store_job("c", "x" * 9000)]
    screen = make_screen(width=1000)
    await show_list(join_stored(StoredApi(jobs)), screen, everywhere=False, as_json=False)
    assert "WritesRefused" in read(screen.out)
    assert max(map(len, read(screen.out).splitlines())) < 200
