-- Moves due members of the scheduled set into the ready stream (C12).
-- KEYS 1 scheduled set: member "<job id>:<generation>:<attempts>", score run_at in ms rounded up
--      2 ready stream: fields j (job id), g (generation), a (attempts)
--      3 epoch: "ready:<token>" unless Redis lost its data
--      4 bad: list of members that could not be parsed
-- ARGV 1 now in ms (PostgreSQL's)   2 most members to move   3 lifetime of the bad list in seconds
-- Returns {moved, bad, epoch or "", score of the first member left or ""}
-- Each member is added first and removed next: an error of Redis (out of memory) leaves it in the set.
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
local moved, bad = 0, 0
for _, member in ipairs(due) do
  local job, generation, attempts = string.match(member, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+):(%d+)$')
  if job and #job == 36 then
    redis.call('XADD', KEYS[2], '*', 'j', job, 'g', generation, 'a', attempts)
    moved = moved + 1
  else
    redis.call('LPUSH', KEYS[4], string.sub(member, 1, 1024))
    redis.call('LTRIM', KEYS[4], 0, 999)
    redis.call('EXPIRE', KEYS[4], ARGV[3])
    bad = bad + 1
  end
  redis.call('ZREM', KEYS[1], member)
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {moved, bad, redis.call('GET', KEYS[3]) or '', first[2] or ''}
