// A reporter of vitest. It runs in vitest's first process; tests run in workers.
import partOf from './part_of_suite.cjs';
import { begin, order, emitTest, emitTook, through } from './emit.cjs';

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

function emitFiles(files, errors) {
  for (const file of files) {
    let count = 0;
    for (const [titles, test] of testsIn(file, [])) {
      emitTest(file.filepath, titles, outcomeOf(test));
      count += 1;
    }
    if (count === 0 && file.result?.state === 'fail') emitTest(file.filepath, [], 'failed');
    const { collectDuration, setupDuration = 0, environmentLoad = 0, prepareDuration = 0 } = file;
    emitTook(file.filepath, collectDuration + setupDuration + environmentLoad + prepareDuration);
  }
  for (const [number] of (errors ?? []).entries()) emitTest('', ['(error outside of the tests)', `${number}`], 'failed');
  through();
}

// Whether files share a context, in which one may bring down those after it.
function isShared({ isolate, poolOptions }) {
  return isolate === false || Object.values(poolOptions ?? {}).some((pool) => pool?.isolate === false);
}

// Leaves a part of a large suite for the control, after all that the command and the settings have selected.
function leavePart(vitest) {
  const runFiles = vitest.runFiles?.bind(vitest);
  if (runFiles === undefined) return;
  vitest.runFiles = (selected, ...rest) => {
    const projects = [vitest, ...(vitest.projects ?? [])];
    if (projects.some(({ config }) => isShared(config))) return runFiles(selected, ...rest);
    // What is selected are paths with their project, from version 2 on objects.
    return runFiles(partOf(selected, (each) => each.moduleId ?? each[1]), ...rest);
  };
}

export default class EmittingReporter {
  onInit(vitest) {
    begin('vitest', vitest.version ?? '');
    if (order.purpose === 'control') leavePart(vitest);
  }

  // Before version 3 and 4.
  onFinished(files, errors) {
    if (!this.reported) emitFiles(files ?? [], errors);
    this.reported = true;
  }

  onTestRunEnd(modules, errors) {
    if (!this.reported) emitFiles(modules.map((module) => module.task), errors);
    this.reported = true;
  }
}
