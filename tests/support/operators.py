"""Schemas of the objects of operators (KEDA, Prometheus, cert-manager), as far as deploy/ has them.

Kubernetes itself knows nothing of them. If deploy/ needs a field that is not here, look it up and add it.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft7Validator

TEXT = {"type": "string", "minLength": 1}
NAMES = {"type": "object", "additionalProperties": TEXT}
DURATION = {"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$"}


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False, "required": required.split(), "properties": properties,
    }  # fmt: skip


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": of}


_KEY = _object("name key", name=TEXT, key=TEXT)
_ISSUER = _object("name", name=TEXT, kind=TEXT, group=TEXT)
_ENDPOINT = _object(
    "port",
    port=TEXT, path=TEXT, scheme={"enum": ["http", "https"]}, interval=DURATION,
    authorization=_object("credentials", type=TEXT, credentials=_KEY),
    tlsConfig=_object("", serverName=TEXT, ca=_object("secret", secret=_KEY)),
    relabelings=_list(_object("", targetLabel=TEXT, replacement=TEXT, sourceLabels=_list(TEXT))),
)  # fmt: skip
_SELECTOR = _object("matchLabels", matchLabels=NAMES)
SPECS = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _object(
        "selector endpoints", selector=_SELECTOR, endpoints=_list(_ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): _object(
        "selector podMetricsEndpoints", selector=_SELECTOR, podMetricsEndpoints=_list(_ENDPOINT)
    ),
    ("cert-manager.io/v1", "Issuer"): {
        "oneOf": [
            _object("selfSigned", selfSigned=_object("")),
            _object("ca", ca=_object("secretName", secretName=TEXT)),
        ]
    },
    ("cert-manager.io/v1", "Certificate"): _object(
        "secretName issuerRef",
        secretName=TEXT, issuerRef=_ISSUER, isCA={"type": "boolean"}, commonName={"type": "string", "maxLength": 64},
        duration=DURATION, renewBefore=DURATION, dnsNames=_list(TEXT),
        usages=_list({"enum": ["digital signature", "server auth", "client auth"]}),
        privateKey=_object(
            "algorithm", algorithm={"enum": ["ECDSA", "RSA"]}, size={"enum": [256, 384, 521, 2048]},
            rotationPolicy={"enum": ["Always", "Never"]},
        ),
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): _object(
        "scaleTargetRef triggers",
        scaleTargetRef=_object("name", name=TEXT),
        minReplicaCount={"type": "integer", "minimum": 0}, maxReplicaCount={"type": "integer", "minimum": 1},
        pollingInterval={"type": "integer"}, cooldownPeriod={"type": "integer"},
        triggers=_list(
            _object(
                "type metadata", type={"const": "prometheus"}, metricType={"enum": ["AverageValue", "Value"]},
                metadata=_object("serverAddress query threshold", serverAddress=TEXT, query=TEXT, threshold=TEXT),
            )
        ),
    ),
}  # fmt: skip


def errors_of(found: dict[str, Any]) -> list[str]:
    """Returns what is wrong with an object of an operator."""
    schema = _object(
        "apiVersion kind metadata spec",
        apiVersion=TEXT, kind=TEXT, spec=SPECS[found["apiVersion"], found["kind"]],
        metadata=_object("name", name=TEXT, namespace=TEXT, labels=NAMES, annotations=NAMES),
    )  # fmt: skip
    return [f"{error.json_path}: {error.message}" for error in Draft7Validator(schema).iter_errors(found)]
