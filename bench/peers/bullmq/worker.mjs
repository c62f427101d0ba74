// BullMQ with a hundred calls at once over connections that are kept open. `node worker.mjs add URL COUNT` puts jobs, else it works.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { Pool } from "undici";

const connection = new Redis(process.env.BENCH_REDIS_SOCKET, { maxRetriesPerRequest: null });

if (process.argv[2] === "add") {
  const [url, count] = [process.argv[3], Number(process.argv[4])];
  const queue = new Queue("bench", { connection });
  for (let from = 0; from < count; from += 1000) {
    const jobs = Array.from({ length: Math.min(1000, count - from) }, (_, i) => ({
      name: "call", data: { url, number: from + i }, opts: { removeOnComplete: true, attempts: 5 },
    }));
    await queue.addBulk(jobs);
  }
  await queue.close();
  connection.disconnect();
} else {
  const pools = new Map();
  const call = async (job) => {
    const { origin, pathname } = new URL(job.data.url);
    if (!pools.has(origin)) pools.set(origin, new Pool(origin, { connections: 100 }));
    const answer = await pools.get(origin).request({
      path: pathname, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify([1, job.data.number]),
    });
    await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
  };
  new Worker("bench", call, { connection, concurrency: 100 });
}
