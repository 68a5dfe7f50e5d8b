'use strict';
// Values as texts: a description that is equal for equal values, and a form from which a value is made again. Values may come from
// another context (jest has one for each file): their tags and the names of their classes distinguish them.
const crypto = require('node:crypto');

const DEEPEST = 8;
const MOST_PARTS = 4000;
const SHOWN = 300;

const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);
const classOf = (value) => Object.getPrototypeOf(value)?.constructor?.name ?? '';
const isPlain = (value) => [null, 'Object'].includes(Object.getPrototypeOf(value) === null ? null : classOf(value));
const isClass = (value) => typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));
const isPromise = (value) => typeof value?.then === 'function';
const digestOf = (text) => crypto.createHash('sha256').update(text).digest('hex');
const shortened = (text) => (text.length <= SHOWN ? text : `${text.slice(0, SHOWN - 3)}...`);

// The text, and whether it is whole: an iterator would have to be consumed.
function describe(root) {
  let parts = 0;
  let whole = true;
  const above = [];
  const entries = (value) => Object.keys(value).sort().map((key) => `${key}: ${of(value[key])}`).join(', ');
  function inner(value, tag) {
    if (tag === 'Array') return `[${value.map(of).join(', ')}]`;
    if (tag === 'Date') return `Date(${Number(value)})`;
    if (tag === 'RegExp') return String(value);
    if (tag === 'Map') return `Map{${[...value].map(([key, each]) => `${of(key)} => ${of(each)}`).join(', ')}}`;
    if (tag === 'Set') return `Set{${[...value].map(of).join(', ')}}`;
    if (ArrayBuffer.isView(value)) return `${tag}[${[...new Uint8Array(value.buffer, value.byteOffset, value.byteLength)]}]`;
    if (tag === 'Error') return `${classOf(value)}(${of(value.message)}${value.code === undefined ? '' : `, ${of(value.code)}`})`;
    if (typeof value.next === 'function') whole = false;
    return `${isPlain(value) ? '' : classOf(value)}{${entries(value)}}`;
  }
  function of(value) {
    parts += 1;
    if (typeof value === 'string') return JSON.stringify(value);
    if (typeof value === 'function') return `<${value.name || 'function'}>`;
    if (typeof value === 'bigint') return `${value}n`;
    if (Object.is(value, -0)) return '-0';
    if (value === null || typeof value !== 'object') return String(value);
    if (parts > MOST_PARTS || above.length >= DEEPEST) return '...';
    if (above.includes(value)) return '<itself>';
    above.push(value);
    try {
      return inner(value, tagOf(value));
    } finally {
      above.pop();
    }
  }
  return [of(root), whole];
}

function outcomeOf(kind, value, after) {
  const [text, whole] = describe(value);
  const [rest, wholeRest] = describe(after);
  return { kind, digest: whole && wholeRest ? digestOf(`${kind}\n${text}\n${rest}`) : '', text: shortened(text) };
}

// A form for JSON. `nameOf` gives the place of a class of the changed files; other objects with a class are refused.
function encode(value, nameOf, depth = 0) {
  if (value === undefined) return { t: 'undefined' };
  if (typeof value === 'bigint') return { t: 'bigint', v: String(value) };
  if (typeof value === 'number' && (!Number.isFinite(value) || Object.is(value, -0))) {
    return { t: 'number', v: Object.is(value, -0) ? '-0' : String(value) };
  }
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return value;
  if (typeof value === 'function' && nameOf(value) !== undefined) return { t: 'class', v: nameOf(value) };
  if (typeof value !== 'object' || depth > DEEPEST) throw new TypeError('it cannot be written down');
  const of = (each) => encode(each, nameOf, depth + 1);
  const tag = tagOf(value);
  if (tag === 'Array') return value.map(of);
  if (tag === 'Date') return { t: 'date', v: Number(value) };
  if (tag === 'RegExp') return { t: 'regexp', v: [value.source, value.flags] };
  if (tag === 'Map') return { t: 'map', v: [...value].map(([key, each]) => [of(key), of(each)]) };
  if (tag === 'Set') return { t: 'set', v: [...value].map(of) };
  if (tag === 'Error') return { t: 'error', v: [classOf(value), value.message] };
  if (tag === 'Uint8Array') return { t: 'bytes', v: Buffer.from(value).toString('base64') };
  const place = isPlain(value) ? null : nameOf(Object.getPrototypeOf(value).constructor);
  if (place === undefined || tag !== 'Object') throw new TypeError('it cannot be written down');
  return { t: 'object', c: place, v: Object.keys(value).map((key) => [key, of(value[key])]) };
}

// `classAt` gives the class at a place.
async function decode(form, classAt) {
  if (form === null || typeof form !== 'object') return form;
  if (Array.isArray(form)) return Promise.all(form.map((each) => decode(each, classAt)));
  const { t: type, v: value } = form;
  if (type === 'object') {
    const made = form.c === null ? {} : Object.create((await classAt(form.c)).prototype);
    for (const [key, each] of value) made[key] = await decode(each, classAt);
    return made;
  }
  if (type === 'class') return classAt(value);
  if (type === 'map') return new Map(await Promise.all(value.map((pair) => decode(pair, classAt))));
  if (type === 'set') return new Set(await Promise.all(value.map((each) => decode(each, classAt))));
  const makers = {
    undefined: () => undefined,
    bigint: () => BigInt(value),
    number: () => Number(value),
    date: () => new Date(value),
    regexp: () => new RegExp(...value),
    error: () => Object.assign(new (globalThis[value[0]] ?? Error)(value[1])),
    bytes: () => Buffer.from(value, 'base64'),
  };
  return makers[type]();
}

module.exports = { decode, describe, encode, isClass, isPromise, outcomeOf, shortened };
