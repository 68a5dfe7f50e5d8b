"""The bus on NATS JetStream, through nats-py."""
