"""Commands about bundles: verify, replay, report, attach, approve, gc."""
