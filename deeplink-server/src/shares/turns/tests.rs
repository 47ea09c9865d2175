use super::*;

fn share(number: usize) -> Share {
    Share::Wallet(number.to_string())
}

fn turn(number: usize) -> Turn {
    share(number).into()
}

fn all<T>(turns: &mut Turns<T>) -> Vec<T> {
    std::iter::from_fn(|| turns.next(|_, _| true)).collect()
}

#[test]
fn shares_take_turns_and_each_keeps_its_order() {
    let mut turns = Turns::new();
    for (of, item) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
        assert!(turns.push(turn(of), 3, item));
    }
    assert!(!turns.push(turn(1), 3, "one too many") && !turns.push(turn(9), 0, "no room at all"));
    assert_eq!(turns.next(|share, _| *share == self::share(2)), Some("b1"), "the first one's turn has not come");
    assert_eq!(all(&mut turns), ["a1", "c1", "b2", "a2", "a3"]);
    assert_eq!((turns.len(), turns.lines.len(), turns.order.len()), (0, 0, 0));
}

/// R2: an account's own items and those with restricted credentials alternate while both wait; each kind has its own
/// room, and neither keeps the other waiting, however they come.
#[test]
fn r2_an_accounts_own_items_and_restricted_ones_alternate() {
    let mut turns = Turns::new();
    let restricted = |is_restricted| turn(1).restricted(is_restricted);
    let mut push = |is_restricted, item| turns.push(restricted(is_restricted), 4, item);
    assert!(["r1", "r2", "r3", "r4"].iter().all(|item| push(true, *item)) && !push(true, "r5"));
    assert!(["a1", "a2", "a3", "a4"].iter().all(|item| push(false, *item)) && !push(false, "a5"));
    let first: Vec<_> = (0..2).filter_map(|_| turns.next(|_, _| true)).collect();
    assert!(turns.push(restricted(false), 4, "a6") && turns.push(restricted(true), 4, "r6"));
    assert_eq!([first, all(&mut turns)].concat(), ["a1", "r1", "a2", "r2", "a3", "r3", "a4", "r4", "a6", "r6"]);

    assert!(turns.push(restricted(true), 9, "r"));
    let mut served = Vec::new();
    for _ in 0..4 {
        assert!(turns.push(restricted(false), 9, "a"));
        served.extend(turns.next(|_, _| true));
    }
    assert_eq!(served, ["a", "r", "a", "a"], "one own item always waits");
    assert_eq!(all(&mut turns), ["a"]);

    assert!(turns.push(restricted(true).of_rows(800), 9, "costly") && turns.push(turn(2).of_rows(80), 9, "b"));
    assert!(turns.push(restricted(false).of_rows(16), 9, "own"));
    assert_eq!(all(&mut turns), ["own", "b", "costly"], "its flow has the place of its next item");
    assert_eq!((turns.len(), turns.lines.len(), turns.order.len(), turns.large.len()), (0, 0, 0, 0));
}

/// R2: what is over, of either kind, is found at once, also behind what is not.
#[test]
fn r2_restricted_items_that_are_over_do_not_wait_for_own_ones() {
    let mut turns = Turns::new();
    for (item, is_restricted) in [("over 1", true), ("a1", false), ("over 2", true), ("r", true), ("a2", false)] {
        assert!(turns.push(turn(1).restricted(is_restricted), 9, item));
    }
    assert_eq!(turns.take_over(|item| item.starts_with("over")), ["over 1", "over 2"]);
    assert_eq!((turns.len(), all(&mut turns)), (3, vec!["a1", "r", "a2"]));
}

/// R2: what an account's restricted credentials have waiting takes nothing of what it has in a full queue.
#[test]
fn r2_a_full_queue_has_room_for_an_accounts_own_items() {
    let mut turns = Turns::new();
    for number in 0..MAX_WAITING {
        assert!(turns.push(turn(number % 16), 256, number));
    }
    let mut push = |is_restricted| turns.push(turn(16).restricted(is_restricted), 256, 0);
    assert_eq!([true, true, false, false, true].map(&mut push), [true, false, true, false, false]);
}

#[test]
fn r2_a_full_queue_has_room_for_one_of_each_account_and_for_what_is_nobodys() {
    let mut turns = Turns::new();
    for number in 0..MAX_WAITING {
        assert!(turns.push(turn(number % 16), 256, number));
    }
    assert!(turns.push(turn(16), 256, 0) && !turns.push(turn(16), 256, 1), "one, and no more");
    assert!(!turns.push(turn(0), 1_000, 0));
    for number in 0..3 {
        assert_eq!(turns.push(Share::Service.into(), 2, number), number < 2, "the service's own share is unchanged");
    }
    assert_eq!(all(&mut turns).len(), MAX_WAITING + 1 + 2);
}

#[test]
fn what_is_over_or_gone_takes_no_room() {
    let mut turns = Turns::new();
    for (of, item) in [(1, 1), (1, 5), (1, 2), (2, 3), (3, 9)] {
        assert!(turns.push(turn(of), 3, item));
    }
    let mut over = turns.take_over(|item| *item < 4);
    over.sort_unstable();
    assert_eq!((over, turns.len()), (vec![1, 3], 3));
    turns.forget(&share(1), |item| *item == 5);
    turns.forget(&share(3), |_| true);
    turns.forget(&share(4), |_| true);
    assert_eq!((turns.len(), turns.order.len()), (1, 1));
    assert_eq!(all(&mut turns), [2]);
}

/// R2: however many others have a batch waiting, what is small comes soon, and each batch in the end.
#[test]
fn r2_small_items_do_not_wait_for_the_large_ones_of_many_shares() {
    let mut turns = Turns::new();
    let large = |number| Turn::from(share(number)).of_rows(100);
    for number in 1..=200 {
        assert!(turns.push(large(number), 3, number));
    }
    let (mut waits, mut done, mut batches) = (Vec::new(), Vec::new(), 200);
    while done.len() < 400 {
        // One small item at a time, while each batch that is done is followed by the next of its share.
        assert!(turns.push(turn(0), 3, 0));
        let before = done.len();
        while let Some(number @ 1..) = turns.next(|_, _| true) {
            done.push(number);
            assert!(turns.push(large(number), 3, number));
            batches += 1;
            assert!(batches < 1_000, "the small one never comes");
        }
        waits.push(done.len() - before);
        // What the small item leaves of the time is for the batches.
        let number = turns.next(|_, _| true).expect("a batch");
        done.push(number);
        assert!(turns.push(large(number), 3, number));
    }
    // As many are done, or begun earlier, in the time that a small one takes when all have their part.
    assert!(waits.iter().all(|waited| *waited <= 30), "{waits:?}");
    let mut first = done[..200].to_vec();
    first.sort_unstable();
    assert_eq!(first, (1..=200).collect::<Vec<_>>(), "each has its turn before any has its second");
}

/// R2: beside small items of many shares that never end, a batch comes once each of them had its turn, and however
/// many batches there are, five sixths of the work is on small items.
#[test]
fn r2_batches_do_not_wait_for_many_small_items_of_each_share() {
    for (batches, most) in [(1, 240), (20, 1_500)] {
        let mut turns = Turns::new();
        let push = |turns: &mut Turns<usize>, number| {
            let rows = if number < batches { 100 } else { 1 };
            assert!(turns.push(Turn::from(share(number)).of_rows(rows), 20, number));
        };
        (0..200 + batches).for_each(|number| push(&mut turns, number));
        let (mut last, mut waits, mut done) = (vec![0; 200 + batches], vec![0; 200 + batches], [0, 0]);
        for at in 1..=20_000 {
            let number = turns.next(|_, _| true).expect("an item");
            waits[number] = waits[number].max(at - last[number]);
            last[number] = at;
            done[usize::from(number < batches)] += if number < batches { 13 } else { 1 };
            push(&mut turns, number);
        }
        let [of_batches, of_small] = [&waits[..batches], &waits[batches..]].map(|waits| *waits.iter().max().unwrap());
        assert!(of_batches <= most, "{of_batches}");
        assert!(of_small <= 300, "{of_small}");
        assert!(done[0] >= 5 * done[1], "{done:?}");
        // What a share got early is not held against it later.
        (0..9).for_each(|_| assert!(turns.push(Turn::from(share(999)).of_rows(100), 20, 999)));
        let rest: Vec<_> = all(&mut turns).into_iter().filter(|number| *number < batches || *number == 999).collect();
        assert!(rest[..=batches].contains(&0), "{rest:?}");
    }
}

/// A transaction on SQLite: one item of any size and, after it, as many small ones as fit.
fn transaction(turns: &mut Turns<usize>) -> Vec<usize> {
    let first = turns.next(|_, _| true);
    let rest = std::iter::from_fn(|| turns.next(|_, is_large| !is_large));
    first.into_iter().chain(rest.take(63)).collect()
}

/// R2: a share that always has large and small items waiting does not put off the batches of others, however long it
/// has done so: transactions with one large item each and many small ones give it no credit.
#[test]
fn r2_what_may_not_be_taken_gains_no_lead_over_the_batches_of_others() {
    let mut turns = Turns::new();
    let push = |turns: &mut Turns<usize>, number: usize, rows: usize| {
        turns.push(Turn::from(share(number)).of_rows(rows), 100, number)
    };
    let fill = |turns: &mut Turns<usize>| {
        while push(turns, 1, 100) {}
        while push(turns, 1, 1) {}
    };
    for _ in 0..200 {
        fill(&mut turns);
        transaction(&mut turns);
    }
    push(&mut turns, 2, 100);
    let rounds = (0..300).take_while(|_| {
        fill(&mut turns);
        !transaction(&mut turns).contains(&2)
    });
    assert!(rounds.count() < 3);
}

/// R2: a share with many small items waiting, which was served while nobody else could be, is not put off for it when
/// others come.
#[test]
fn r2_what_is_served_while_others_may_not_be_taken_is_no_debt() {
    let mut turns = Turns::new();
    let push = |turns: &mut Turns<usize>, number: usize, rows: usize| {
        turns.push(Turn::from(share(number)).of_rows(rows), 120, number)
    };
    for _ in 0..200 {
        while push(&mut turns, 1, 100) {}
        while push(&mut turns, 2, 1) {}
        transaction(&mut turns);
    }
    let mut served = [0; 4];
    for _ in 0..10 {
        for number in [2, 3] {
            while push(&mut turns, number, 1) {}
        }
        for number in transaction(&mut turns) {
            served[number] += 1;
        }
    }
    assert!(served[2] >= 200 && served[3] >= 200, "{served:?}");
}

/// R2: batches of few rows do not come much more often than their part, however many shares have larger ones.
#[test]
fn r2_small_batches_take_no_more_than_their_part() {
    let mut turns = Turns::new();
    let push = |turns: &mut Turns<usize>, number: usize| {
        let rows = if number == 0 { 9 } else { 100 };
        assert!(turns.push(Turn::from(share(number)).of_rows(rows), 2, number));
    };
    (0..=20).for_each(|number| {
        push(&mut turns, number);
        push(&mut turns, number);
    });
    let (mut since, mut most) = ([0; 21], 0);
    for _ in 0..2_000 {
        let number = turns.next(|_, _| true).expect("an item");
        if number == 0 {
            for since in &mut since {
                *since += 1;
            }
            most = most.max(*since[1..].iter().max().expect("a share"));
        }
        since[number] = 0;
        push(&mut turns, number);
    }
    assert!(most <= 10, "{most}");
}

/// R2: what a share has small does not wait for what it has large and may not take.
#[test]
fn r2_small_items_pass_large_ones_of_their_share_that_may_not_be_taken() {
    let mut turns = Turns::new();
    assert!(turns.push(Turn::from(share(0)).of_rows(100), 99, "batch") && turns.push(turn(0), 99, "small"));
    assert_eq!(turns.next(|_, is_large| !is_large), Some("small"));
    assert_eq!([turns.next(|_, is_large| !is_large), turns.next(|_, _| true)], [None, Some("batch")]);
}

/// R2: a share that asks for more than its part still has its part, although most of what it asks for is refused.
#[test]
fn r2_what_is_refused_costs_its_share_nothing() {
    let mut turns = Turns::new();
    let mut served = 0;
    for round in 1_000..1_200 {
        for number in 1..=20 {
            turns.push(Turn::from(share(number)).of_rows(100), 1, number);
        }
        for _ in 0..32 {
            turns.push(turn(0), 64, round);
        }
        for _ in 0..4 {
            served += usize::from(turns.next(|_, _| true).expect("an item") >= 1_000);
        }
        // Those of earlier rounds were not begun in time; there are always others behind them.
        turns.take_over(|item| (1_000..round).contains(item));
        assert!(turns.cost_before(&turn(0)) > 0);
    }
    assert!(served >= 200, "{served}: at least one in each round");
}

/// R2: a burst of one share's small items does not bring the batches of others before the small item of another.
#[test]
fn r2_a_burst_of_small_items_does_not_hold_up_another() {
    let mut turns = Turns::new();
    for number in 1..=40 {
        assert!(turns.push(Turn::from(share(number)).of_rows(100), 3, number));
    }
    for _ in 0..64 {
        assert!(turns.push(turn(0), 64, 0));
    }
    for _ in 0..13 {
        turns.next(|_, _| true).expect("an item");
    }
    assert!(turns.push(turn(99), 1, 99));
    let before = std::iter::from_fn(|| turns.next(|_, _| true).filter(|number| *number != 99)).count();
    assert!(before <= 3, "{before}");
}
