throw new Error('this module fails as it loads')
