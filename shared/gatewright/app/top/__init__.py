"""The board in a terminal (`gatewright top`): the same models as the live page, for one keyboard. It decides nothing itself."""
