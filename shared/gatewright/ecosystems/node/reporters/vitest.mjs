// A reporter of vitest. It runs in vitest's first process; tests run in workers.
import { begin, tellTest, through } from './tell.cjs';

function* testsIn(task, titles) {
  for (const each of task.tasks ?? []) {
    if (each.type === 'suite') yield* testsIn(each, [...titles, each.name]);
    else yield [[...titles, each.name], each];
  }
}

function outcomeOf({ mode, result }) {
  if (mode === 'skip' || mode === 'todo' || result?.state === 'skip') return 'skipped';
  return result?.state === 'pass' ? 'passed' : 'failed';
}

function tellFiles(files, errors) {
  for (const file of files) {
    let count = 0;
    for (const [titles, test] of testsIn(file, [])) {
      tellTest(file.filepath, titles, outcomeOf(test));
      count += 1;
    }
    if (count === 0 && file.result?.state === 'fail') tellTest(file.filepath, [], 'failed');
  }
  for (const [number] of (errors ?? []).entries()) tellTest('', ['(error outside of the tests)', `${number}`], 'failed');
  through();
}

export default class Told {
  onInit(vitest) {
    begin('vitest', vitest.version ?? '');
  }

  // Before version 3 and 4.
  onFinished(files, errors) {
    if (!this.told) tellFiles(files ?? [], errors);
    this.told = true;
  }

  onTestRunEnd(modules, errors) {
    if (!this.told) tellFiles(modules.map((module) => module.task), errors);
    this.told = true;
  }
}
