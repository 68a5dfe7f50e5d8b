'use strict';
// Loaded before everything else. Where the program is a test runner that takes its reporters from its arguments, ours is added.
const fs = require('node:fs');
const path = require('node:path');
const { isMainThread } = require('node:worker_threads');

const RUNNERS = [
  [/\/node_modules\/mocha\/bin\/_?mocha(\.js)?$/, 'mocha'],
  [/\/node_modules\/jest(-cli)?\/bin\/jest\.js$/, 'jest'],
  [/\/node_modules\/vitest\/vitest\.mjs$/, 'vitest'],
];

function runner() {
  try {
    const program = fs.realpathSync(process.argv[1] ?? '');
    return RUNNERS.find(([pattern]) => pattern.test(program))?.[1];
  } catch {
    return undefined;
  }
}

// Mocha knows one reporter: ours takes the place of the one that the command names, and shows people what that one would.
function withoutReporter(words) {
  const left = [];
  let named;
  for (let at = 0; at < words.length; at += 1) {
    const [option, value] = words[at].split('=', 2);
    if (words[at] === '--') return { left: [...left, ...words.slice(at)], named };
    if (option !== '-R' && option !== '--reporter') left.push(words[at]);
    else named = value ?? words[(at += 1)];
  }
  return { left, named };
}

// Jest and vitest know several reporters.
function added(name, order, given) {
  const reporter = path.join(__dirname, name === 'vitest' ? 'vitest.mjs' : `${name}.cjs`);
  const titles = order.only.map((id) => id.split('::').at(-1).split(' > ').at(-1).replace(/[^A-Za-z0-9 ]/g, '.'));
  const words = [];
  if (name === 'mocha') words.push('--reporter', reporter);
  const option = name === 'jest' ? '--reporters' : '--reporter';
  if (name !== 'mocha' && !given.some((word) => word.startsWith(option))) words.push(`${option}=default`);
  if (name !== 'mocha') words.push(`${option}=${reporter}`);
  // On the baseline all are run: which tests there are is known only to those that run them.
  if (order.purpose === 'control' && titles.length > 0) {
    words.push(name === 'mocha' ? '--grep' : '--testNamePattern', titles.join('|'));
  }
  return words;
}

let ours = [];
let named;
const given = process.argv.slice(2);
const name = isMainThread ? runner() : undefined;
if (name !== undefined && !process.argv.some((word) => word.includes(__dirname))) {
  const order = JSON.parse(fs.readFileSync(path.join(__dirname, 'order.json'), 'utf8'));
  ours = added(name, order, given);
  if (name === 'jest' && order.purpose === 'control') require('./jest_part.cjs')(fs.realpathSync(process.argv[1]));
  let left = given;
  if (name === 'mocha') ({ left, named } = withoutReporter(given));
  process.argv.splice(2, given.length, ...ours, ...left);
}

// The reporters of mocha and jest are loaded when all words are read, and no test is: tests may run in the same process, and read
// its words as their own.
module.exports = {
  named,
  forget() {
    if (ours.length > 0 && process.argv[2] === ours[0]) process.argv.splice(2, process.argv.length, ...given);
    ours = [];
  },
};
