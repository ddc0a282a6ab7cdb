export const handler = () => 'never called'
