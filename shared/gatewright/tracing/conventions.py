"""The names of spans' attributes: OpenTelemetry's semantic conventions at one version, and our own below ``gatewright.``.

The conventions of messaging, generative AI, CI/CD and version control are still in development, so that a name may change
with a version; ours change only with this module. A test compares them with the library that has all names.
"""

from __future__ import annotations

from typing import Final

#: The version of these names; it is sent with the spans.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

ERROR_TYPE: Final = "error.type"

MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_DESTINATION: Final = "messaging.destination.name"
MESSAGING_OPERATION: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_CONSUMER_GROUP: Final = "messaging.consumer.group.name"

GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER: Final = "gen_ai.provider.name"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_AGENT_VERSION: Final = "gen_ai.agent.version"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"

PIPELINE_NAME: Final = "cicd.pipeline.name"
PIPELINE_RUN_ID: Final = "cicd.pipeline.run.id"
PIPELINE_RESULT: Final = "cicd.pipeline.result"
PIPELINE_TASK_NAME: Final = "cicd.pipeline.task.name"
PIPELINE_TASK_RUN_ID: Final = "cicd.pipeline.task.run.id"
REPOSITORY_URL: Final = "vcs.repository.url.full"
BASE_REVISION: Final = "vcs.ref.base.revision"
HEAD_REF: Final = "vcs.ref.head.name"
HEAD_REVISION: Final = "vcs.ref.head.revision"
HTTP_STATUS: Final = "http.response.status_code"

SERVICE_NAME: Final = "service.name"
SERVICE_NAMESPACE: Final = "service.namespace"
SERVICE_VERSION: Final = "service.version"
SERVICE_INSTANCE: Final = "service.instance.id"

#: The run, under the same name in all telemetry.
RUN_ID: Final = "gatewright.run.id"
TASK_ID: Final = "gatewright.task.id"
ATTEMPT: Final = "gatewright.attempt"
DELIVERY: Final = "gatewright.delivery"
OUTCOME: Final = "gatewright.outcome"
PUBLISHER: Final = "gatewright.publisher"
STATE: Final = "gatewright.state"
GATE: Final = "gatewright.gate.name"
GATE_VERDICT: Final = "gatewright.gate.verdict"
GATE_CODE: Final = "gatewright.gate.code"
COST: Final = "gatewright.model.cost_usd"
PLAYED: Final = "gatewright.model.played"
