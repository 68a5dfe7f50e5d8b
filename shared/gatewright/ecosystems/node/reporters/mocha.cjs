'use strict';
// A reporter of mocha. It runs where the tests run, in one process with them.
const fs = require('node:fs');
const path = require('node:path');
const { begin, emitTest, through } = require('./emit.cjs');
const { forget, named } = require('./preload.cjs');
forget();

const home = path.dirname(path.dirname(fs.realpathSync(process.argv[1])));
const { reporters } = require(home);
const Shown = Object.hasOwn(reporters, named ?? '') ? reporters[named] : reporters.Spec;

module.exports = class EmittingReporter extends Shown {
  constructor(runner, options) {
    super(runner, options);
    begin('mocha', require(path.join(home, 'package.json')).version);
    runner.on('pass', (test) => emitTest(test.file ?? '', test.titlePath(), 'passed'));
    // A failed hook is reported as a failed test.
    runner.on('fail', (test) => emitTest(test.file ?? test.parent?.file ?? '', test.titlePath(), 'failed'));
    runner.on('pending', (test) => emitTest(test.file ?? '', test.titlePath(), 'skipped'));
    runner.on('end', through);
  }
};
