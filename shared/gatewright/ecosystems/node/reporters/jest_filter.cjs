'use strict';
// Leaves a part of a large suite for the control, after all that the command and the settings have selected: jest loads the
// sources anew for each file, and no test of them is run there. What brings the others down brings down those that are drawn.
const path = require('node:path');
const { randomInt } = require('node:crypto');
const { order } = require('./tell.cjs');

const ALL = 20;
const DRAWN = 10;

module.exports = (files) => {
  const planted = new Set(order.only.map((id) => path.join(order.workspace, id.split('::', 1)[0])));
  const others = files.filter((file) => !planted.has(file));
  while (files.length > ALL && others.length > DRAWN) others.splice(randomInt(others.length), 1);
  const left = [...files.filter((file) => planted.has(file)), ...others];
  // Since jest 30 the files themselves, before that objects.
  return { filtered: [...left, ...left.map((test) => ({ test }))] };
};
