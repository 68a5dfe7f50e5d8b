"""The reviewer: read-only checks over a candidate."""
