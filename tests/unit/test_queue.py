import asyncio

import pytest

from helm_operator.queue import Lane, Priority, WorkQueue


async def take(queue, lane=Lane.PLAN):
    return await asyncio.wait_for(queue.get(lane), 1)


async def test_a_key_waits_once_however_often_it_is_added():
    queue = WorkQueue()
    for _ in range(100):
        queue.add("a")
    queue.add("b")

    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_in_work_comes_again_once_when_it_is_done():
    queue = WorkQueue()
    queue.add("a")
    key = await take(queue)
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0

    queue.done(key)

    assert await take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_persons_wish_goes_before_background_work():
    queue = WorkQueue()
    queue.add("old")
    queue.add("edited")
    queue.add("edited", priority=Priority.USER)

    assert await take(queue) == "edited"


async def test_a_long_action_does_not_hold_a_cheap_pass_back():
    queue = WorkQueue()
    queue.add("slow", lane=Lane.ACT)
    queue.add("cheap")

    assert await take(queue, Lane.ACT) == "slow"
    assert await take(queue) == "cheap"


async def test_a_key_that_waits_to_act_does_not_wait_to_plan_too():
    queue = WorkQueue()
    queue.add("a", lane=Lane.ACT)
    queue.add("a")

    assert len(queue) == 1
    assert await take(queue, Lane.ACT) == "a"


async def test_of_several_delayed_wishes_the_earliest_stands():
    queue = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)

    assert await take(queue) == "a"


async def test_a_forgotten_key_does_not_come():
    queue = WorkQueue()
    queue.add("a")
    queue.add_after("a", 0.001)
    queue.forget("a")
    queue.add("b")

    assert await take(queue) == "b"
    await asyncio.sleep(0.01)
    assert len(queue) == 0


async def test_closing_ends_the_waits():
    queue = WorkQueue()
    waiting = asyncio.create_task(queue.get(Lane.PLAN))
    await asyncio.sleep(0)

    queue.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
