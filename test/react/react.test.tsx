import { page } from './support.js'
import { StrictMode } from 'react'
import { renderToString } from 'react-dom/server'
import { describe, expect, it, vi } from 'vitest'
import { jobsClient, type JobsClient, type PublicJob } from '../../src/client/index.js'
import { JobsProvider, useJob, useJobStream, type UseJobOptions } from '../../src/react/index.js'
import { served } from '../client/support.js'

function Job({ id, ...options }: UseJobOptions & { id: string | null }) {
  const { job, error, cancel } = useJob(id, options)
  return (
    <p onClick={() => void cancel()}>
      {job ? `${job.status} ${job.stage?.label ?? ''}` : 'nothing'} {error?.code}
    </p>
  )
}

function Answer({ id, ...options }: UseJobOptions & { id: string }) {
  const { text, done, error } = useJobStream(id, 'answer', options)
  return (
    <pre>
      {text} {done ? 'done' : ''} {error?.code}
    </pre>
  )
}

/** A server with a job, and what a page says to reach it. */
async function bench() {
  const made = await served()
  const job = await made.enqueue()
  const getToken = (ids: readonly string[]) => made.token([...ids], ['view', 'cancel'])
  return { ...made, job, id: job.id, path: `${made.origin}/jobs`, getToken }
}

describe('useJob', () => {
  it('shows the job as it is, at each stage, and to its end', async () => {
    const { id, path, getToken, queue, lead, connections } = await bench()
    const { shows, text } = page(<Job id={id} path={path} getToken={getToken} />)
    expect(text()).toContain('nothing')
    await shows('pending')
    queue.work()
    await lead(id).tell((context) => context.stage('drawing'))
    await shows('running Drawing')
    lead(id).end()
    await shows('succeeded')
    await vi.waitFor(() => expect(connections.size).toBe(0))
  })
  it('renders on the server what it was given, and asks for nothing', async () => {
    const { id, path, getToken, ask, token, requests } = await bench()
    const initial = (await (await ask(`/jobs/${id}`, await token(id))).json()) as PublicJob
    expect(renderToString(<Job id={id} path={path} getToken={getToken} initial={initial} />)).toContain('pending')
    expect(renderToString(<Job id={id} path={path} getToken={getToken} />)).toContain('nothing')
    expect(requests).toEqual([])
  })
  it('shows at first what the server has rendered, and then what is newer', async () => {
    const { id, path, getToken, queue, lead, ask, token } = await bench()
    const initial = (await (await ask(`/jobs/${id}`, await token(id))).json()) as PublicJob
    const { shows, text } = page(<Job id={id} path={path} getToken={getToken} initial={initial} />)
    expect(text()).toContain('pending')
    queue.work()
    await lead(id).tell((context) => context.stage('drawing'))
    await shows('running Drawing')
  })
  it('opens one connection in StrictMode, which mounts everything twice', async () => {
    const { id, path, getToken, requests } = await bench()
    const { shows } = page(
      <StrictMode>
        <Job id={id} path={path} getToken={getToken} />
      </StrictMode>,
    )
    await shows('pending')
    expect(requests).toHaveLength(1)
  })
  it('shares a connection with the other hooks of the page', async () => {
    const { enqueue, id, path, getToken, requests } = await bench()
    const other = await enqueue()
    const { shows, text } = page(
      <>
        <Job id={id} path={path} getToken={getToken} />
        <Job id={other.id} path={path} getToken={getToken} />
        <Answer id={id} path={path} getToken={getToken} />
      </>,
    )
    await shows('pending')
    expect(text()?.match(/pending/g)).toHaveLength(2)
    expect(requests).toHaveLength(1)
  })
  it('keeps its connection when it renders with another function for tokens, and asks the latest', async () => {
    const { id, path, token, requests } = await bench()
    const asked: number[] = []
    const render = (n: number) => (
      <Job id={id} path={path} getToken={(ids) => (asked.push(n), token([...ids], ['view', 'cancel']))} />
    )
    const { shows, show, element } = page(render(1))
    await shows('pending')
    show(render(2))
    expect(requests).toHaveLength(1)
    element.querySelector('p')!.click()
    await shows('canceled')
    expect(asked).toEqual([1, 2])
  })
  it('follows the id that it is given, shows nothing of the one before, and reads nothing without one', async () => {
    const { enqueue, id, path, getToken, queue, lead, requests } = await bench()
    const { shows, show, text } = page(<Job id={null} path={path} getToken={getToken} />)
    expect(requests).toEqual([])
    show(<Job id={id} path={path} getToken={getToken} />)
    await shows('pending')
    const other = await enqueue()
    queue.work()
    await lead(other.id).tell((context) => context.stage('saving'))
    show(<Job id={other.id} path={path} getToken={getToken} />)
    expect(text()).toContain('nothing')
    await shows('Saving <b>')
  })
  it('tells that the connection is lost, and that it is back', async () => {
    const { id, path, token } = await bench()
    let isAway = true
    const getToken = async () => {
      if (isAway) throw new Error('the server of the product is away')
      return token(id)
    }
    const Connection = () => <p>{useJob(id, { path, getToken }).isLive ? 'live' : 'lost'}</p>
    const { shows, text } = page(<Connection />)
    expect(text()).toBe('live')
    await shows('lost')
    isAway = false
    await shows('live')
  })
  it('tells why nothing comes', async () => {
    const { id, path, token } = await bench()
    const getToken = () => token('another')
    const { shows, text } = page(<Job id={id} path={path} getToken={getToken} />)
    await shows('forbidden')
    expect(text()).toBe('nothing forbidden')
  })
  it('lets go when it is unmounted', async () => {
    const { id, path, getToken, connections } = await bench()
    const { shows, show } = page(<Job id={id} path={path} getToken={getToken} />)
    await shows('pending')
    show(null)
    await vi.waitFor(() => expect(connections.size).toBe(0))
  })
  it('uses the client of a provider, which stays open', async () => {
    const { id, path, getToken, connections, requests } = await bench()
    const client: JobsClient = jobsClient({ path, getToken })
    const { shows, show } = page(
      <JobsProvider client={client}>
        <Job id={id} />
        <Answer id={id} />
      </JobsProvider>,
    )
    await shows('pending')
    expect(requests).toHaveLength(1)
    show(null)
    await vi.waitFor(() => expect(connections.size).toBe(0))
    expect(await client.get(id)).toMatchObject({ id })
    client.close()
  })
})

describe('useJobStream', () => {
  it('shows the text as it grows, to its end, as text', async () => {
    const { id, path, getToken, queue, lead } = await bench()
    const { shows, html } = page(<Answer id={id} path={path} getToken={getToken} />)
    queue.work()
    await lead(id).tell((context) => context.stream('answer').write('Once <b>'))
    await shows('Once <b>')
    await lead(id).tell((context) => context.stream('answer').write(' upon'))
    await shows('Once <b> upon')
    lead(id).end()
    await shows('Once <b> upon done')
    expect(html()).toContain('Once &lt;b&gt; upon')
  })
  it('is empty on the server', () => {
    expect(renderToString(<Answer id="any" />)).toBe(
      renderToString(
        <pre>
          {''} {''}{' '}
        </pre>,
      ),
    )
  })
})
