"""The model gateway: serves the APIs of models on a socket of one task, and holds the provider's keys."""

from gatewright.models.gateway.gateway import ModelGateway, private_socket
from gatewright.models.gateway.reading import GatewayLimits

__all__ = ["GatewayLimits", "ModelGateway", "private_socket"]
