/** Whether the commands in the documentation exist. They are not run: some install things, and some go on for ever. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './blocks.js'

/** Commands that are not this project's, and so are taken as they are. */
const FOREIGN = new Set([
  'cat',
  'cd',
  'cp',
  'createdb',
  'curl',
  'docker',
  'echo',
  'export',
  'git',
  'ls',
  'mkdir',
  'psql',
  'rm',
  'sqlite3',
])
const NPM_BUILT_IN = new Set(['ci', 'i', 'install'])

/** What is wrong with the commands of a block, one sentence for each. `files` are those the same document gives. */
export function checkCommands(script: string, files: ReadonlySet<string>): string[] {
  return commandsOf(script).flatMap((command) => {
    const problem = checkCommand(command, files)
    return problem === undefined ? [] : [`${command}: ${problem}`]
  })
}

function commandsOf(script: string): string[] {
  return script
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => line.replace(/^\$ /, '').replace(/(?:^|\s)#.*$/, ''))
    .flatMap((line) => splitOutsideQuotes(line))
    .map((command) => command.trim().replace(/^(?:\w+=\S*\s+)+/, ''))
    .filter((command) => command !== '')
}

function splitOutsideQuotes(line: string): string[] {
  const commands = ['']
  for (const part of line.match(/"[^"]*"|'[^']*'|&&|\|\||[|;]|[^"'&|;]+|./g) ?? []) {
    if (/^(?:&&|\|\||[|;])$/.test(part)) commands.push('')
    else commands[commands.length - 1] += part
  }
  return commands
}

function checkCommand(command: string, files: ReadonlySet<string>): string | undefined {
  const [program = '', ...args] = command.split(/\s+/)
  if (FOREIGN.has(program)) return undefined
  if (program === 'npm') return checkNpm(args)
  if (program === 'jobtable' || program === 'node_modules/.bin/jobtable') return checkJobtable(args)
  if (program === 'npx' && args[0] === 'jobtable') return checkJobtable(args.slice(1))
  if (program === 'node' || (program === 'npx' && args[0] === 'tsx'))
    return checkFile(
      args.find((arg) => /\.[cm]?[jt]s$/.test(arg)),
      files,
    )
  if (program.includes('/')) return checkFile(program, files)
  return 'no check knows this command; add it to test/docs/shell.ts, or mark the block "unchecked because ..."'
}

function checkNpm([verb = '', name = '']: readonly string[]): string | undefined {
  if (NPM_BUILT_IN.has(verb)) return undefined
  const script = verb === 'run' ? name : verb
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  return script in scripts ? undefined : `package.json has no script "${script}"`
}

function checkFile(file: string | undefined, files: ReadonlySet<string>): string | undefined {
  if (file === undefined) return 'names no file'
  return files.has(file.replace(/^\.\//, '')) || existsSync(join(root, file)) ? undefined : `there is no file ${file}`
}

function checkJobtable(args: readonly string[]): string | undefined {
  const name = args.find((arg) => !arg.startsWith('-'))
  const help = helpOf(name === undefined ? [] : [name])
  if (name !== undefined && !new RegExp(`^ {2}${name}\\b`, 'm').test(helpOf([]))) return `jobtable has no command "${name}"`
  const unknown = args
    .filter((arg) => /^--?[a-z]/.test(arg))
    .filter((arg) => !new RegExp(`(?<![\\w-])${arg.replace(/=.*/, '')}(?![\\w-])`).test(help))
  return unknown.length === 0 ? undefined : `jobtable ${name ?? ''} has no option ${unknown.join(', ')}`
}

const helpTexts = new Map<string, string>()

function helpOf(command: readonly string[]): string {
  const key = command.join(' ')
  const known = helpTexts.get(key)
  if (known !== undefined) return known
  const { stdout } = spawnSync(process.execPath, [join(root, 'dist/cli/main.js'), ...command, '--help'], { encoding: 'utf8' })
  helpTexts.set(key, stdout)
  return stdout
}
