"""The model gateway: serves the APIs of models on a socket of one task, and holds the provider's keys."""

from gatewright.models.gateway.gateway import ModelGateway
from gatewright.models.gateway.limits import GatewayLimits
from gatewright.models.gateway.sockets import private_socket

__all__ = ["GatewayLimits", "ModelGateway", "private_socket"]
