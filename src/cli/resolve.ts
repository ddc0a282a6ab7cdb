/** `resolve`: what became of an effect of which nobody knew whether it happened. */
import type { Command } from 'commander'
import { resolveEffect } from '../effects/resolve.js'
import { withStore } from './database.js'
import { EXIT, usageError } from './failure.js'
import { clean } from './format.js'
import { whoAmI } from './repair.js'
import type { On } from './session.js'

interface ResolveOptions {
  done?: string
  notDone?: boolean
}

export function addResolve(program: Command, on: On): void {
  program
    .command('resolve')
    .description('Say what became of an effect whose job is held; once none is in doubt, the job is pending again.')
    .argument('<id>', 'the job')
    .argument('<effect>', 'the name of the effect, as `show` has it')
    .option('--done <json>', 'it happened; with the value that the handler is to get, null for none')
    .option('--not-done', 'it did not happen, and is to begin anew')
    .addHelpText(
      'after',
      `
Look at the provider first, by the key that \`jobtable show\` prints. What was said by mistake can be said anew while
the job is failed or canceled, unless an attempt has called again since.

Examples:
  jobtable resolve 01890a5d-ac96-774b-bcce-b302099a8057 charge --done '{"receipt":"ch_1"}'
  jobtable resolve 01890a5d-ac96-774b-bcce-b302099a8057 charge --not-done

Exit codes: 0 it is noted; 1 the job is not failed or canceled, or has no such effect in doubt; 2 wrong usage.
`,
    )
    .action(
      on((session, id: string, effect: string, options: ResolveOptions) => {
        const found = foundBy(options)
        return withStore(session, async (store) => {
          const by = whoAmI()
          const inDoubt = (await resolveEffect(store, id, { effect, by, ...found })).map(({ name }) => name)
          const [{ status } = { status: 'failed' }] = (await store.get([id])).flatMap((row) => row ?? [])
          const pending = inDoubt.length === 0 && status === 'failed' && (await store.repair([id], by))[0]?.changed === true
          if (session.json) session.printJson({ id, effect, as: found.as, inDoubt, pending })
          else if (pending) session.print(`${clean(id)} is pending again\n`)
          else
            session.print(`${clean(id)} stays ${status}${inDoubt.length > 0 ? `; in doubt: ${clean(inDoubt.join(', '))}` : ''}\n`)
          return EXIT.ok
        })
      }),
    )
}

function foundBy({ done, notDone }: ResolveOptions): { as: 'done'; result: unknown } | { as: 'not_done' } {
  if ((done === undefined) === (notDone === undefined))
    throw usageError('what became of it?', 'say --done with the value that the handler is to get, null for none, or --not-done')
  if (done === undefined) return { as: 'not_done' }
  try {
    return { as: 'done', result: JSON.parse(done) as unknown }
  } catch {
    throw usageError(`${JSON.stringify(done)} is no JSON`, `a text needs quotes of its own: --done '"text"'`)
  }
}
