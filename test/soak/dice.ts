/** Random numbers that a seed brings back. What depends on time does not come back with them. */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** In [0, 1). Mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.between(0, items.length - 1)]!
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    const rest = [...items]
    return items.map(() => rest.splice(this.between(0, rest.length - 1), 1)[0]!)
  }
}

/** Deals the cards of a deck in random order, each as often as the deck has it, and begins anew when it is empty. */
export class Deck<Card> {
  readonly #dice: Dice
  readonly #cards: readonly Card[]
  #rest: Card[] = []

  constructor(dice: Dice, cards: readonly Card[]) {
    this.#dice = dice
    this.#cards = cards
  }

  /** Some of its cards have been dealt, and some not. */
  get begun(): boolean {
    return this.#rest.length > 0
  }

  deal(): Card {
    if (this.#rest.length === 0) this.#rest = this.#dice.shuffled(this.#cards)
    return this.#rest.pop()!
  }
}
