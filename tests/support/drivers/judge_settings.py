"""Settings of ``slicewatch judge`` for a test's broker and endpoint, as environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from free_ports import free_port
from kafka_broker import KafkaBroker
from openai_server import OpenAIServer
from signed_probes import WITH_KEY

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"


def environment_of(
    broker: KafkaBroker, name: str, folder: Path, server: OpenAIServer
) -> Mapping[str, str]:
    return {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{name}-l",
        "SLICEWATCH__STREAM__GROUP_ID": name[-8:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db",
        **WITH_KEY,
        "SLICEWATCH__JUDGE__URL": server.url,
        "SLICEWATCH__JUDGE__MODEL": "judge-model",
        "SLICEWATCH__JUDGE__OUTPUTS_TOPIC": f"{name}-o",
        "SLICEWATCH__JUDGE__JUDGEMENTS_TOPIC": f"{name}-j",
        "SLICEWATCH__JUDGE__DECISIONS_TOPIC": f"{name}-d",
        "SLICEWATCH__JUDGE__LISTEN": f"127.0.0.1:{free_port()}",
    }
