-- Moves due members of the scheduled set on (C12), and lets in what waits in queues.
-- The set's members are "<job id>:<generation>:<attempts>:<lane>", their score is run_at in ms rounded up.
-- KEYS 1 ready stream   2 scheduled set   3 epoch; the other keys have the same hash tag, and are named from the prefix
-- ARGV 1 to 3 as in queues.lua   4 now in ms (PostgreSQL's)   5 most members to move   6 lifetime in seconds of the list of members that could not be parsed
-- Returns {moved, bad, epoch or "", score of the first member left or ""}
-- Each member is added first and removed next: an error of Redis (out of memory) leaves it in the set.
local now, bad_list = tonumber(ARGV[4]), prefix .. 'bad'
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, ARGV[5], 'WITHSCORES')
local moved, bad = 0, 0
for at = 1, #due, 2 do
  if add_due(due[at], tonumber(due[at + 1])) then
    moved = moved + 1
  else
    redis.call('LPUSH', bad_list, string.sub(due[at], 1, 1024))
    redis.call('LTRIM', bad_list, 0, 999)
    redis.call('EXPIRE', bad_list, ARGV[6])
    bad = bad + 1
  end
  redis.call('ZREM', scheduled, due[at])
end
admit(now)
local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')
return {moved, bad, redis.call('GET', epoch) or '', first[2] or ''}
