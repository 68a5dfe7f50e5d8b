"""The merge queue of one branch: its events, its state, and the decisions over both. Pure.

A merge queue lands many changes on one branch. Every commit that the branch points to was tested as exactly that tree.
The data flows in a circle::

    input ──> decide(queue, input, policy, now) ──> events ──> evolve(queue, event) ──> queue
      ^                                                                                   │
      └────────────── the gatekeeper carries out a command <── commands(queue, policy) <──┘

1. An *entry* is a run whose change is to land: its blobs before and after, by path. ``planning`` decides where it is placed.
2. A *position* is one or more entries with disjoint paths, on top of the base and the positions ahead. ``planning`` forms it.
   The line of positions speculates that everything ahead succeeds.
3. The gatekeeper composes a position by path (``composition``), and reports its tree and one commit for each run.
4. It tests the tree. A tree is tested once. A second test of a red tree needs a reason (``draft``).
5. The furthest green position lands: one push by compare-and-swap from the base to the commit of its last run.
6. A red position is acted on when everything ahead of it has landed and no test is under way behind it. A position of several
   entries is split. A single entry leaves when the base is green without it.
7. Each landing has a receipt (``receipt``), from which order and trees can be derived again.

The stream of a queue stores events alone. A process that folds the same events has the same queue and the same commands, so any
gatekeeper continues where another one stopped. Every command has an id. Carrying it out twice has no further effect.
"""
