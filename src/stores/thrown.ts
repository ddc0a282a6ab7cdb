/** Carries an error of the product's past what is done about the database's own. */
export class Thrown extends Error {
  constructor(cause: unknown) {
    super('the function of a transaction threw', { cause })
  }
}
