'use strict';
// A reporter of mocha. It runs where the tests run, in one process with them.
const fs = require('node:fs');
const path = require('node:path');
const { begin, tellTest, through } = require('./tell.cjs');
const { forget, named } = require('./preload.cjs');
forget();

const home = path.dirname(path.dirname(fs.realpathSync(process.argv[1])));
const { reporters } = require(home);
const Shown = Object.hasOwn(reporters, named ?? '') ? reporters[named] : reporters.Spec;

module.exports = class Told extends Shown {
  constructor(runner, options) {
    super(runner, options);
    begin('mocha', require(path.join(home, 'package.json')).version);
    runner.on('pass', (test) => tellTest(test.file ?? '', test.titlePath(), 'passed'));
    // A hook that fails is told as a test that failed.
    runner.on('fail', (test) => tellTest(test.file ?? test.parent?.file ?? '', test.titlePath(), 'failed'));
    runner.on('pending', (test) => tellTest(test.file ?? '', test.titlePath(), 'skipped'));
    runner.on('end', through);
  }
};
