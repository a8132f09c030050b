from aiohttp.test_utils import TestClient, TestServer

from et_operator.runtime.measuring import Metrics
from et_operator.serving import build_app


async def read(path: str, *, trouble: str = "") -> tuple[int, str]:
    metrics = Metrics()
    app = build_app(
        metrics,
        healthy=lambda: "",
        ready=lambda: trouble,
        refresh=lambda: metrics.queue_depth.set(3),
    )
    async with TestClient(TestServer(app)) as client:
        answer = await client.get(path)
        return answer.status, await answer.text()


async def test_health_and_readiness_are_two_questions() -> None:
    assert await read("/healthz", trouble="no lists yet") == (200, "ok")
    assert await read("/readyz", trouble="no lists yet") == (503, "no lists yet")
    assert await read("/readyz") == (200, "ok")


async def test_gauges_are_brought_up_to_date_before_they_are_read() -> None:
    status, text = await read("/metrics")

    assert status == 200
    assert "et_operator_workqueue_depth 3.0" in text


async def test_a_watch_is_counted_but_its_life_is_not_a_duration() -> None:
    metrics = Metrics()
    metrics.note_request("watch", "pods", 200, 300.0)
    metrics.note_request("get", "pods", 0, 0.1)

    text = metrics.render().decode()

    assert 'et_operator_api_requests_total{code="200",resource="pods",verb="watch"} 1.0' in text
    assert 'et_operator_api_request_seconds_count{resource="pods",verb="get"} 1.0' in text
    assert 'verb="watch"' not in "".join(x for x in text.splitlines() if "_seconds" in x)
