'use strict';
// A reporter of jest. It runs in jest's first process; tests run there too, in a context of their own, or in workers.
const { begin, emitTest, emitTook, through } = require('./emit.cjs');
require('./preload.cjs').forget();

const OUTCOMES = { passed: 'passed', failed: 'failed' };

module.exports = class EmittingReporter {
  onRunStart() {
    begin('jest', '');
  }

  onTestResult(test, result) {
    if (result.testExecError && result.testResults.length === 0) emitTest(test.path, [], 'failed');
    for (const each of result.testResults) {
      emitTest(test.path, [...each.ancestorTitles, each.title], OUTCOMES[each.status] ?? 'skipped');
    }
    const { start, end } = result.perfStats ?? {};
    emitTook(test.path, result.testResults.reduce((left, each) => left - (each.duration ?? 0), end - start));
  }

  onRunComplete() {
    through();
  }
};
