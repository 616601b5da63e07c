// The feed as one writes it in an afternoon: Redis, without a ledger, offsets, recovery or visibility. `feedline-bench
// feed --broker redis` measures it beside Feedline. A socket sends `+ author …`, a publisher `POST /posts/<author>`.
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { WebSocketServer } from 'ws'

const { HOST, PORT, REDIS_URL, PREFIX } = process.env
const [redis, listener] = [new Redis(REDIS_URL), new Redis(REDIS_URL)]
const sockets = new Map()
listener.on('message', (inbox, post) => sockets.get(inbox)?.send(post))

const server = createServer(async (request, response) => {
  let text = ''
  for await (const chunk of request) text += chunk
  const author = request.url.slice('/posts/'.length)
  const audience = redis.smembers(`${PREFIX}:followers:${author}`)
  const [id, followers] = await Promise.all([redis.incr(`${PREFIX}:ids`), audience])
  const post = JSON.stringify({ id, author, text: JSON.parse(text), created_at: Date.now() })
  const writes = redis.pipeline()
  for (const inbox of followers) writes.lpush(inbox, post).ltrim(inbox, 0, 999).publish(inbox, post)
  await writes.exec()
  response.end('{}')
})

new WebSocketServer({ server, perMessageDeflate: false }).on('connection', socket => {
  socket.once('message', async message => {
    const inbox = `${PREFIX}:inbox:${sockets.size}`
    sockets.set(inbox, socket)
    const follows = redis.pipeline()
    for (const author of `${message}`.split(' ').slice(1)) follows.sadd(`${PREFIX}:followers:${author}`, inbox)
    await Promise.all([follows.exec(), listener.subscribe(inbox)])
    socket.on('close', () => sockets.delete(inbox))
    socket.send('+')
  })
})
server.listen(PORT, HOST)
process.stdin.on('end', () => process.exit()).resume()
