'use strict';
// A reporter of jest. It runs in jest's first process; tests run there too, in a context of their own, or in workers.
const { begin, tellTest, through } = require('./tell.cjs');
require('./preload.cjs').forget();

const OUTCOMES = { passed: 'passed', failed: 'failed' };

module.exports = class Told {
  onRunStart() {
    begin('jest', '');
  }

  onTestResult(test, result) {
    if (result.testExecError && result.testResults.length === 0) tellTest(test.path, [], 'failed');
    for (const each of result.testResults) {
      tellTest(test.path, [...each.ancestorTitles, each.title], OUTCOMES[each.status] ?? 'skipped');
    }
  }

  onRunComplete() {
    through();
  }
};
