// A reporter of node:test. It runs in the process of `node --test`; each test file runs in a process of its own.
import { begin, emitTest, through } from './emit.cjs';

function outcomeOf(event) {
  const { skip, todo } = event.data;
  if ((skip !== undefined && skip !== false) || (todo !== undefined && todo !== false)) return 'skipped';
  return event.type === 'test:pass' ? 'passed' : 'failed';
}

// A suite is not a test: it is reported only when it fails itself.
function isTold(event) {
  return event.data.details?.type !== 'suite' || event.type === 'test:fail';
}

// Tests without a reported end, by file: their process ended too early.
class Open {
  #names = new Map();

  add({ file, name, nesting }) {
    if (name !== file) this.#of(file).push(`${nesting} ${name}`);
  }

  take({ file, name, nesting }) {
    const names = this.#of(file);
    const at = names.indexOf(`${nesting} ${name}`);
    if (at >= 0) names.splice(at, 1);
  }

  *left() {
    for (const [file, names] of this.#names) for (const name of names) yield [file, name.slice(name.indexOf(' ') + 1)];
  }

  #of(file) {
    if (!this.#names.has(file)) this.#names.set(file, []);
    return this.#names.get(file);
  }
}

export default async function* report(events) {
  begin('node:test', process.version);
  const path = [];
  const open = new Open();
  for await (const event of events) {
    const { file, name, nesting } = event.data ?? {};
    if (event.type === 'test:enqueue') open.add(event.data);
    else if (event.type === 'test:start') {
      path.length = nesting;
      path[nesting] = name;
    } else if (event.type === 'test:pass' || event.type === 'test:fail') {
      open.take(event.data);
      if (isTold(event)) emitTest(file ?? '', name === file ? [] : [...path.slice(0, nesting), name], outcomeOf(event));
    }
  }
  for (const [file, name] of open.left()) emitTest(file, [name, '(begun, never ended)'], 'failed');
  through();
  yield '';
}
