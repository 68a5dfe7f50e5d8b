'use strict';
// Outside of a test runner: makes the calls of the file that is named, and writes a line for each to standard output. Its folder
// is removed before anything of the workspace is loaded.
const fs = require('node:fs');
const { replay } = require('./replaying.cjs');

const { calls, folder, token, variables, workspace } = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
fs.rmSync(__dirname, { recursive: true, force: true });
process.argv.splice(1, process.argv.length, `${folder}/app`);
process.chdir(folder);
Object.assign(process.env, variables, { PWD: folder });
// Kept from what replaces functions of these modules.
const { exit } = process;
const { writeSync } = fs;
const { stringify } = JSON;
const write = (record) => writeSync(1, `${stringify({ token, ...record })}\n`);
for (const name of ['log', 'info', 'debug', 'warn', 'error']) console[name] = () => {};
replay(calls, (file) => import(`${workspace}/${file}`), write).then(() => exit(0), () => exit(1));
