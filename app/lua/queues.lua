-- What every script that adds or admits begins with: queues that take turns, and their limits as far as Redis knows them.
-- KEYS 1 ready stream   2 scheduled set   3 epoch
-- ARGV 1 prefix of the keys   2 most entries in the ready stream before jobs wait in their queues   3 head start of a priority in ms
-- Returns nothing: the script that follows in the same text does.
-- A job's lane is "<client>:<queue>:<priority>"; its queue's token is "<client>:<queue>".
local prefix, most_ready, head_start = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ready, scheduled, epoch = KEYS[1], KEYS[2], KEYS[3]
-- A queue's turn lets so many jobs through.
local turn_length = 8
-- A queue that is full or paused is looked at again after this long, if nothing wakes it before.
local look_again_ms = 1000

-- Adds a queue to the turns of its client, and the client to the turns of all; who is in keeps its place.
local function join(token)
  local client, queue = string.match(token, '^(%d+):(%d+)$')
  local ring = prefix .. 'ring:' .. client
  if not redis.call('ZSCORE', ring, queue) then
    local first = redis.call('ZRANGE', ring, 0, 0, 'WITHSCORES')
    redis.call('ZADD', ring, first[2] or 0, queue)
  end
  if not redis.call('ZSCORE', prefix .. 'turns', client) then
    local first = redis.call('ZRANGE', prefix .. 'turns', 0, 0, 'WITHSCORES')
    redis.call('ZADD', prefix .. 'turns', first[2] or 0, client)
  end
end

local function leave(token)
  local client, queue = string.match(token, '^(%d+):(%d+)$')
  local ring = prefix .. 'ring:' .. client
  redis.call('ZREM', ring, queue)
  if redis.call('EXISTS', ring) == 0 then
    redis.call('ZREM', prefix .. 'turns', client)
  end
end

-- How many of the queue's jobs may go now, and when to look again if none. The claim has the last word, so this may be wrong.
local function allowance(token, now)
  local limits = redis.call('HGET', prefix .. 'limits', token)
  if not limits then return turn_length end
  local paused, concurrency, rated = string.match(limits, '^(%d):(%d*):(%d)')
  if paused == '1' then return 0, now + look_again_ms end
  local free = turn_length
  if concurrency ~= '' then
    free = math.min(free, tonumber(concurrency) - redis.call('ZCARD', prefix .. 'slots:' .. token))
    if free <= 0 then return 0, now + look_again_ms end
  end
  if rated == '1' then
    local known = redis.call('HGET', prefix .. 'rates', token)
    local tokens, again = string.match(known or '1:0', '^(%d+):(%d+)$')
    tokens, again = tonumber(tokens), tonumber(again)
    -- Not known any more: one job asks PostgreSQL.
    if tokens == 0 and now >= again then tokens = 1 end
    if tokens == 0 then return 0, again end
    free = math.min(free, tokens)
    redis.call('HSET', prefix .. 'rates', token, string.format('%.0f:%.0f', tokens - free, now + look_again_ms))
  end
  return free
end

-- Puts a due job where it waits for its queue's turn. The member is the scheduled set's.
local function wait_in_queue(token, priority, member, run_at)
  redis.call('ZADD', prefix .. 'waiting:' .. token, run_at - priority * head_start, member)
  if not redis.call('ZSCORE', prefix .. 'asleep', token) then join(token) end
end

-- A due job: into the stream, if nobody has to wait; else into its queue. Without a lane it has none.
local function add_due(member, run_at)
  local job, generation, attempts, lane = string.match(member, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+):(%d+)(.*)$')
  if not job or #job ~= 36 then return false end
  local token, priority = string.match(lane, '^:(%d+:%d+):(%d)$')
  if lane ~= '' and not token then return false end
  if not token then
    redis.call('XADD', ready, '*', 'j', job, 'g', generation, 'a', attempts)
  elseif redis.call('XLEN', ready) < most_ready and redis.call('EXISTS', prefix .. 'waiting:' .. token) == 0
      and redis.call('HEXISTS', prefix .. 'limits', token) == 0 then
    redis.call('XADD', ready, '*', 'j', job, 'g', generation, 'a', attempts, 'l', string.sub(lane, 2))
  else
    wait_in_queue(token, tonumber(priority), member, run_at)
  end
  return true
end

-- Lets waiting jobs into the stream while it has room, one turn after the other. Each holds a slot until it is claimed, or,
-- in a limited queue, until its attempt has ended. Added first and removed next: an error leaves it where it waits (C12).
local function admit(now)
  if string.sub(redis.call('GET', epoch) or '', 1, 6) ~= 'ready:' then return 0 end
  local rested = redis.call('ZRANGEBYSCORE', prefix .. 'asleep', '-inf', now, 'LIMIT', 0, 200)
  for _, token in ipairs(rested) do
    redis.call('ZREM', prefix .. 'asleep', token)
    if redis.call('EXISTS', prefix .. 'waiting:' .. token) == 1 then join(token) end
  end
  local room, admitted = most_ready - redis.call('XLEN', ready), 0
  while room > 0 do
    local client = redis.call('ZRANGE', prefix .. 'turns', 0, 0)[1]
    if not client then break end
    local ring = prefix .. 'ring:' .. client
    local queue = redis.call('ZRANGE', ring, 0, 0)[1]
    if not queue then
      redis.call('ZREM', prefix .. 'turns', client)
    else
      local token = client .. ':' .. queue
      local waiting, slots = prefix .. 'waiting:' .. token, prefix .. 'slots:' .. token
      local free, again = allowance(token, now)
      if free == 0 then
        leave(token)
        redis.call('ZADD', prefix .. 'asleep', again, token)
      else
        local members = redis.call('ZRANGE', waiting, 0, math.min(free, room) - 1)
        for _, member in ipairs(members) do
          local job, generation, attempts, lane = string.match(member, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+):(%d+):(.*)$')
          redis.call('XADD', ready, '*', 'j', job, 'g', generation, 'a', attempts, 'l', lane, 's', 1)
          redis.call('ZADD', slots, now, job)
          redis.call('ZREM', waiting, member)
        end
        room, admitted = room - #members, admitted + #members
        if redis.call('EXISTS', waiting) == 0 then
          leave(token)
        else
          redis.call('ZINCRBY', ring, 1, queue)
          redis.call('ZINCRBY', prefix .. 'turns', 1, client)
        end
      end
    end
  end
  return admitted
end
