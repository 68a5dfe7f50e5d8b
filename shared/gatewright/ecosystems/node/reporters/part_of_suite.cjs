'use strict';
// Draws the part of a large suite that the control loads: the planted file and ten others. Each file is loaded in a context of its
// own, so that it predicts little about the next; what brings the others down brings down those that are drawn.
//
// Any file may be drawn. One that took longer to load on the baseline than half of them is drawn less often by as much, down to a
// twentieth: a single file that has its types checked can take longer than all others together.
const path = require('node:path');
const { randomInt } = require('node:crypto');
const { order } = require('./emit.cjs');

const ALL = 20;
const DRAWN = 10;
const SELDOMEST = 20;
const STEPS = 2 ** 47;

// How many times longer than usual each file took, from 1 to SELDOMEST; 1 where that is not known.
function slowness(files) {
  const times = new Map(Object.entries(order.took));
  const known = files.map((file) => times.get(path.relative(order.workspace, file)));
  const sorted = known.filter((took) => took !== undefined).sort((one, other) => one - other);
  const usual = sorted[sorted.length >> 1] ?? 1;
  return known.map((took = usual) => Math.min(Math.max(took / usual, 1), SELDOMEST));
}

// `place` returns the path of one of the files.
module.exports = function partOf(files, place) {
  if (files.length <= ALL) return files;
  const planted = new Set(order.only.map((id) => path.join(order.workspace, id.split('::', 1)[0])));
  const others = files.filter((file) => !planted.has(place(file)));
  const slow = slowness(others.map(place));
  const turns = others.map((file, at) => ({ file, at: -Math.log(randomInt(1, STEPS) / STEPS) * slow[at] }));
  const first = new Set(turns.sort((one, other) => one.at - other.at).slice(0, DRAWN).map(({ file }) => file));
  return files.filter((file) => planted.has(place(file)) || first.has(file));
};
