// The host's clock, seen from the page: asked over the data channel, the exchange with the shortest way there
// and back of the last ones counts (RFC 5905 has the formula).

/** Exchanges that count. */
const KEPT = 20;

interface Exchange {
  offset: number;
  roundTrip: number;
}

export class HostClock {
  private exchanges: Exchange[] = [];

  note(asked: number, received: number, answered: number, heard: number) {
    const roundTrip = heard - asked - (answered - received);
    const offset = (received - asked + answered - heard) / 2;
    this.exchanges = [...this.exchanges, { offset, roundTrip }].slice(-KEPT);
  }

  private best(): Exchange | undefined {
    return this.exchanges.reduce<Exchange | undefined>(
      (best, next) => (best && best.roundTrip <= next.roundTrip ? best : next),
      undefined,
    );
  }

  /** Host minus page, in milliseconds. */
  offset(): number | undefined {
    return this.best()?.offset;
  }

  /** By how much that may be wrong, in milliseconds: half of the way there and back. */
  bound(): number | undefined {
    const best = this.best();
    return best && best.roundTrip / 2;
  }

  roundTrip(): number | undefined {
    return this.exchanges[this.exchanges.length - 1]?.roundTrip;
  }
}
