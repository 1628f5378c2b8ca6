"""An OpenTelemetry collector of the messages and services that OpenTelemetry's own packages have."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

# Name and labels.
Series = tuple[str, frozenset[tuple[str, str]]]


class Collector:
    """What was received, by the sender's instance."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.metrics: dict[str, list[dict[Series, float]]] = {}
        self.logs: dict[str, list[dict[str, Any]]] = {}
        self.resources: dict[str, dict[str, Any]] = {}

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serves at a free port, and gives the URL."""
        server = grpc.server(ThreadPoolExecutor(4))
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(self), server)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(self), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stop(0).wait()

    def instance(self, resource: Any) -> str:
        attributes = values(resource.attributes)
        self.resources[attributes["service.instance.id"]] = attributes
        return attributes["service.instance.id"]

    def next_metrics(self, instance: str, seconds: float = 20) -> dict[Series, float]:
        """The metrics of a request that came after this call."""
        with self.changed:
            now = len(self.metrics.get(instance, []))
            came = self.changed.wait_for(lambda: len(self.metrics.get(instance, [])) > now, seconds)
            assert came, f"no metrics of {instance}"
            return self.metrics[instance][-1]


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self.collector.changed:
            for of_resource in request.resource_metrics:
                instance = self.collector.instance(of_resource.resource)
                series: dict[Series, float] = {}
                for metric in of_resource.scope_metrics[0].metrics:
                    series.update(points(metric))
                self.collector.metrics.setdefault(instance, []).append(series)
            self.collector.changed.notify_all()
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self.collector.changed:
            for of_resource in request.resource_logs:
                instance = self.collector.instance(of_resource.resource)
                for record in of_resource.scope_logs[0].log_records:
                    found = {**values(record.attributes), "body": record.body.string_value, "time": record.time_unix_nano}
                    self.collector.logs.setdefault(instance, []).append({**found, "severity": record.severity_text})
            self.collector.changed.notify_all()
        return logs_service_pb2.ExportLogsServiceResponse()


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return [plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, str(kind))


def values(attributes: Any) -> dict[str, Any]:
    return {attribute.key: plain(attribute.value) for attribute in attributes}


def points(metric: Metric) -> Iterator[tuple[Series, float]]:
    """The samples that Prometheus would have of a metric."""
    kind = metric.WhichOneof("data")
    data = getattr(metric, str(kind))
    if kind != "gauge":
        assert data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE, metric.name
    if kind == "sum":
        assert data.is_monotonic, metric.name
    for point in data.data_points:
        labels = frozenset(values(point.attributes).items())
        assert point.time_unix_nano > 0 and (kind == "gauge") == (point.start_time_unix_nano == 0)
        if kind != "histogram":
            yield (metric.name, labels), getattr(point, point.WhichOneof("value"))
            continue
        yield (f"{metric.name}_sum", labels), point.sum
        yield (f"{metric.name}_count", labels), point.count
        bounds = [*point.explicit_bounds, float("inf")]
        for n, bound in enumerate(bounds):
            yield (f"{metric.name}_bucket", labels | {("le", bound)}), sum(point.bucket_counts[: n + 1])
