'use strict';
// Makes recorded calls again, in the test runner or outside of it.
const { decode, describe, isClass, isPromise, outcomeOf, shortened } = require('./values.cjs');

const LONGEST_CALL = 3000;

// Under `name`: of what is required, of what is imported, and of the default export of either.
function find(loaded, name) {
  const [owner, method] = name.split('#');
  const step = (from, part) => (from === undefined || from === null ? undefined : from[part]);
  const reach = (from) => owner.split('.').filter(Boolean).reduce(step, from);
  const tried = [loaded, loaded?.default, loaded?.default?.default].map(reach);
  const found = tried.find((each) => (method === undefined ? typeof each === 'function' : isClass(each)));
  return method === undefined ? found : found?.prototype[method];
}

function withinTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(Object.assign(new Error('over time'), { late: true })), LONGEST_CALL);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function ended(target, self, args) {
  try {
    const value = Reflect.apply(target, self, args);
    return ['returned', isPromise(value) ? await withinTime(value) : value];
  } catch (error) {
    if (error?.late) return ['over time', undefined];
    return ['raised', error];
  }
}

// `load` takes a file of the workspace; a call is [file, name, line, data].
async function callAgain([file, name, , data], load) {
  let target;
  let self;
  let args;
  try {
    target = find(await load(file), name);
    if (typeof target !== 'function') return { kind: 'unreached', digest: '', text: '' };
    const classAt = async ([path, each]) => find(await load(path), each);
    [self, args] = await decode(JSON.parse(data), classAt);
  } catch (error) {
    return { kind: 'unloaded', digest: '', text: shortened(describe(error)[0]) };
  }
  const was = describe([self, args])[0];
  const [kind, value] = await ended(target, self, args);
  const made = outcomeOf(kind, value, [self, args]);
  const now = describe([self, args])[0];
  return now === was ? made : { ...made, text: shortened(`${made.text}, and leaves ${now}`) };
}

async function replay(calls, load, report) {
  for (const [line, call] of calls.entries()) {
    const { kind, digest, text } = await callAgain(call, load);
    report({ kind: 'replayed', line, name: kind, digest, text });
  }
}

module.exports = {
  replay,
  inRunner(load) {
    const { emit, order } = require('./emit.cjs');
    return replay(order.calls, (file) => load(`${order.workspace}/${file}`), emit);
  },
};
