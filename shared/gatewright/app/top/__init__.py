"""The board in a terminal (`gatewright top`): the same models as the live page, for keyboards. It decides nothing itself."""
