'use strict';
// Records calls of exported functions of changed files. Their sources call this module at their end: see recorded_sources.py.
const { emit } = require('./emit.cjs');
const { describe, encode, isClass, isPromise, outcomeOf, shortened } = require('./values.cjs');

const LOOKED_AT = 200;
const MOST_OF_ONE = 8;
const MOST = 3000;
const LONGEST = 2600;
for (const [name, text] of Object.entries(process.env)) {
  if (name.length + text.length < 1900) emit({ kind: 'variable', name, text });
}
let recorded = 0;
let busy = false;
const classes = new Map();
const wrapped = new WeakMap();

class Recorded {
  #seen = new Set();
  #recorded = 0;
  #opaque = 0;
  #calls = 0;

  constructor(path, name) {
    this.path = path;
    this.name = `${path}:${name}`;
    this.#count(0, 0);
  }

  #count(...counts) {
    emit({ kind: 'function', path: this.path, name: this.name, line: 1, counts });
  }

  // A function that takes the end of the call; undefined if it is not recorded.
  begin(self, args) {
    this.#calls += 1;
    if (busy || this.#calls > LOOKED_AT || this.#recorded >= MOST_OF_ONE || this.#opaque >= MOST_OF_ONE || recorded >= MOST) return undefined;
    busy = true;
    try {
      const data = JSON.stringify([encode(self, (each) => classes.get(each)), args.map((each) => encode(each, (other) => classes.get(other)))]);
      if (data.length > LONGEST || this.#seen.has(data)) throw new TypeError('too large, or known');
      this.#seen.add(data);
      this.#recorded += 1;
      recorded += 1;
      this.#count(1, 0);
      const text = shortened(`(${args.map((each) => describe(each)[0]).join(', ')})`);
      return (kind, value) => this.#end(kind, value, [self, args], data, text);
    } catch {
      if (this.#seen.size === 0) {
        this.#opaque += 1;
        this.#count(1, 1);
      }
      return undefined;
    } finally {
      busy = false;
    }
  }

  #end(kind, value, after, data, text) {
    busy = true;
    try {
      const { digest } = outcomeOf(kind, value, after);
      emit({ kind: 'call', id: '', path: this.path, name: this.name, line: 1, data, text, digest });
    } catch {
      // A result that cannot be described: the call is left out.
    } finally {
      busy = false;
    }
  }
}

function calling(record, target, self, args) {
  const end = record.begin(self, args);
  if (end === undefined) return Reflect.apply(target, self, args);
  let result;
  try {
    result = Reflect.apply(target, self, args);
  } catch (error) {
    end('raised', error);
    throw error;
  }
  if (isPromise(result)) result.then((value) => end('returned', value), (error) => end('raised', error));
  else end('returned', result);
  return result;
}

function wrap(path, name, target) {
  if (wrapped.has(target)) return wrapped.get(target);
  const record = new Recorded(path, name);
  const made = new Proxy(target, { apply: (each, self, args) => calling(record, each, self, args) });
  wrapped.set(target, made);
  wrapped.set(made, made);
  return made;
}

function wrapMethods(path, name, holder) {
  for (const key of Object.getOwnPropertyNames(holder)) {
    const { value, writable } = Object.getOwnPropertyDescriptor(holder, key);
    if (writable && typeof value === 'function' && key !== 'constructor' && !isClass(value)) holder[key] = wrap(path, `${name}${key}`, value);
  }
}

// What a file exports under `name`, with its functions recorded.
function value(path, name, exported) {
  if (isClass(exported)) {
    if (!classes.has(exported)) {
      classes.set(exported, [path, name]);
      wrapMethods(path, `${name}#`, exported.prototype);
      wrapMethods(path, `${name}.`, exported);
    }
    return exported;
  }
  if (typeof exported === 'function') return wrap(path, name, exported);
  if (exported !== null && typeof exported === 'object') {
    for (const [key, each] of Object.entries(exported)) {
      const { writable } = Object.getOwnPropertyDescriptor(exported, key);
      if (writable && typeof each === 'function') exported[key] = value(path, name === '' ? key : `${name}.${key}`, each);
    }
  }
  return exported;
}

module.exports = { value, commonjs: (module, path) => (module.exports = value(path, '', module.exports)) };
