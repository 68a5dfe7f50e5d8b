'use strict';
// Has the control of jest load a part of a large suite, drawn after all that the command and the settings have selected, by filters
// of their own too: jest loads the sources anew for each file, and no test of them is run there.
const { createRequire } = require('node:module');
const partOf = require('./part_of_suite.cjs');

// `program` is the file that was started: a jest that hands over to another one, or has no such class, loads all.
module.exports = function leavePart(program) {
  let core;
  try {
    core = createRequire(program)('@jest/core');
  } catch {
    return;
  }
  const selecting = core.SearchSource?.prototype;
  const select = selecting?.getTestPaths;
  if (select === undefined) return;
  selecting.getTestPaths = async function getTestPaths(...asked) {
    const selected = await select.apply(this, asked);
    return { ...selected, tests: partOf(selected.tests, (test) => test.path) };
  };
};
