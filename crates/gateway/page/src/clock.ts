// Estimates the host's clock over the data channel, from the recent exchange with the shortest round trip (formula of
// RFC 5905).

/** Number of recent exchanges. */
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

  /** The host's clock minus the page's clock, in milliseconds. */
  offset(): number | undefined {
    return this.best()?.offset;
  }

  /** Maximum error in milliseconds: half of the round trip. */
  bound(): number | undefined {
    const best = this.best();
    return best && best.roundTrip / 2;
  }

  roundTrip(): number | undefined {
    return this.exchanges[this.exchanges.length - 1]?.roundTrip;
  }
}
